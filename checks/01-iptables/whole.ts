import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { mustRunIptables } from './mode.ts'

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
