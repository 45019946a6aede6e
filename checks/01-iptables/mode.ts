import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView } from '../../grading/snapshot.ts'

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
    hint: 'make iptables brings the mode back, and make flush-nat removes what the other one left.',
  })
}
