import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'

const ASK = 'curl -s localhost:10249/proxyMode'

/** The answer of every node's kube-proxy to /proxyMode. */
export function modeAnswer({ nodes }: CheckContext): Truth {
  mustRunIptables(nodes)
  return { accepts: ['iptables'], inspect: onNode(nodes.at(-1)?.name ?? '', ASK) }
}

/** Fails on the first node whose kube-proxy does not run in this lab's mode. */
export function mustRunIptables(nodes: readonly NodeView[]): void {
  expectNodes(nodes).runMode('iptables', {
    expected: 'kube-proxy in iptables mode, which this lab is about',
    hint: 'Bring iptables mode back, and remove what the other one left:',
    next: 'make iptables && make flush-nat',
  })
}

/** With the lab's Services, kube-proxy's state on every node is exactly what the API objects require. */
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

/** No foreign rule handles packets in the three built-in chains before kube-proxy's own rules. */
export function nothingGoesBefore(nodes: readonly NodeView[]): void {
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
}

/** The Pod that the learner of this lab sends from. */
export const CLIENT_MANIFEST = 'labs/01-iptables/manifests/client.yaml'
