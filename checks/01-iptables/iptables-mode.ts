import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'

const ASK = 'curl -s localhost:10249/proxyMode'

/** The word with which every node's kube-proxy names its mode. */
export function modeInForce({ nodes }: CheckContext): Truth {
  mustRunIptables(nodes)
  return { accepts: ['iptables'], look: onNode(nodes.at(-1)?.name ?? '', ASK) }
}

/** Fails on the first node whose kube-proxy does not run in the mode that this lab is about. */
export function mustRunIptables(nodes: readonly NodeView[]): void {
  expectNodes(nodes).runMode('iptables', {
    expected: 'kube-proxy in iptables mode, which this lab is about',
    hint: 'Bring iptables mode back, and remove what the other one left:',
    next: 'make iptables && make flush-nat',
  })
}

/** With the lab's Services there, everything of kube-proxy's on every node is what the API objects ask for, and no more. */
export function everythingAsPredicted({ nodes, snapshot }: CheckContext): void {
  mustRunIptables(nodes)
  webService(snapshot)
  nothingGoesBefore(nodes)
  expectNodes(nodes)
    .everything('iptables-save')
    .equalPrediction(
      'iptables',
      'exactly the chains and rules that follow from the Services and their endpoints, in their order',
    )
}

/** No rule of somebody else's takes packets in the three built-in chains before kube-proxy's own. */
export function nothingGoesBefore(nodes: readonly NodeView[]): void {
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
}

/** The Pod that the learner of this lab sends from. */
export const CLIENT_MANIFEST = 'labs/01-iptables/manifests/client.yaml'
