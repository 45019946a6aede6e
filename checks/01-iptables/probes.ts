import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { fail } from '../../grading/failure.ts'
import { HOOKS, type HookCounts, LOOK_AT_PROBES } from '../../grading/hook-probes.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { probes } from './hook-counters.ts'

/** The node that the learner put probes on, and what they counted; the one with most of them when there are several. */
function probedNode(nodes: readonly NodeView[]): { node: NodeView; counts: HookCounts } | undefined {
  const probed = nodes
    .map((node) => ({ node, counts: probes.countsIn(node.state.iptables) }))
    .filter(({ counts }) => Object.keys(counts).length > 0)
  return probed.sort((a, b) => Object.keys(b.counts).length - Object.keys(a.counts).length)[0]
}

/** A probe is in each of the five hooks of one node. */
export function probesInFiveHooks({ nodes }: CheckContext): { node: NodeView; counts: HookCounts } {
  const { node } = expectFound(probedNode(nodes), {
    look: onNode(nodes.at(-1)?.name ?? '', LOOK_AT_PROBES),
    expected: 'rules with the comment "probe" in the table mangle of one node',
    actual: 'no such rule on any node',
    hint: `On the node of the client Pod, for each hook: ${probes.addTo('PREROUTING')}`,
  })
  return { node, counts: probes.expectInEveryHook(node) }
}

/** The rules of one node are its own: no other node has a probe. */
export function probesOnOneNode(context: CheckContext): void {
  const { node } = probesInFiveHooks(context)
  for (const other of context.nodes) {
    const hook = other !== node && HOOKS.find((name) => probes.countsIn(other.state.iptables)[name] !== undefined)
    if (!hook) continue
    fail({
      node: other.name,
      look: onNode(other.name, LOOK_AT_PROBES),
      expected: `probes on ${node.name} alone`,
      actual: `a probe in ${hook} of ${other.name}, too`,
      hint: `Delete it there: the same command with -D instead of -A.`,
    })
  }
}
