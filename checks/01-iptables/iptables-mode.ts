import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { webService } from '../../grading/expect-object.ts'
import { onNode } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView } from '../../grading/snapshot.ts'

/** Fails on the first node whose kube-proxy does not run in iptables mode. */
export function expectIptablesMode({ nodes }: Pick<CheckContext, 'nodes'>): void {
  expectNodes(nodes).runMode('iptables', {
    expected: 'kube-proxy in iptables mode, which this lab is about',
    hint: 'Bring iptables mode back, and remove what the other one left:',
    next: 'make iptables && make flush-nat',
  })
}

/** A check, or the truth of a question, for nodes in iptables mode. */
export const inIptablesMode =
  <Result>(check: (context: CheckContext) => Result) =>
  (context: CheckContext): Result => {
    expectIptablesMode(context)
    return check(context)
  }

/** The answer of every node's kube-proxy to /proxyMode. */
export const modeAnswer = ({ nodes }: CheckContext): Truth => ({
  accepts: ['iptables'],
  inspect: onNode(nodes.at(-1)?.name ?? '', 'curl -s localhost:10249/proxyMode'),
})

/** With the lab's Services, kube-proxy's state on every node is exactly what the API objects require. */
export function everythingAsPredicted({ nodes, snapshot }: CheckContext): void {
  webService(snapshot)
  expectJumpsFirst(nodes)
  expectNodes(nodes)
    .everything('iptables-save')
    .equalPrediction(
      'iptables',
      'exactly the chains and rules that follow from the Services and their endpoints, in their order',
    )
}

/** No foreign rule handles packets in the three built-in chains before kube-proxy's own rules. */
export function expectJumpsFirst(nodes: readonly NodeView[]): void {
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
}
