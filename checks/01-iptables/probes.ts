import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import { mismatchedProbe } from '../../grading/mismatched-probe.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { HOOKS, type HookCounts, PROBE_PORT, probeRules, probesIn } from './hook-counters.ts'

export const LOOK_AT_PROBES = 'iptables -t mangle -nvL'
const INSERT = `iptables -t mangle -A PREROUTING -p tcp --syn --dport ${PROBE_PORT} -m comment --comment probe`

/** The node that the learner put probes on, and what they counted; the one with most of them when there are several. */
function probedNode(nodes: readonly NodeView[]): { node: NodeView; counts: HookCounts } | undefined {
  const probed = nodes
    .map((node) => ({ node, counts: probesIn(node.state.iptables) }))
    .filter(({ counts }) => Object.keys(counts).length > 0)
  return probed.sort((a, b) => Object.keys(b.counts).length - Object.keys(a.counts).length)[0]
}

/** A probe stands in each of the five hooks of one node. */
export function probesInFiveHooks({ nodes }: CheckContext): { node: NodeView; counts: HookCounts } {
  const probed = probedNode(nodes)
  if (!probed)
    fail({
      look: onNode(nodes.at(-1)?.name ?? '', LOOK_AT_PROBES),
      expected: 'rules with the comment "probe" in the table mangle of one node',
      actual: 'no such rule on any node',
      hint: `On the node of the client Pod, for each hook: ${INSERT}`,
    })
  const bare = HOOKS.filter((hook) => probed.counts[hook] === undefined)
  if (bare.length > 0)
    fail({
      node: probed.node.name,
      look: onNode(probed.node.name, LOOK_AT_PROBES),
      expected: `a probe in each of ${HOOKS.join(', ')}`,
      actual: `none in ${bare.join(', ')}`,
      differences: bare.map((hook) => ({
        kind: 'missing',
        text: `no probe in ${hook}`,
        expected: `-A ${hook} -p tcp --syn --dport ${PROBE_PORT} -m comment --comment probe`,
      })),
    })
  mustCountTheSame(probed.node)
  return probed
}

function mustCountTheSame({ name, state }: NodeView): void {
  const probes = new Map([...probeRules(state.iptables)].map(([hook, { spec }]) => [hook, spec]))
  const odd = mismatchedProbe(probes, PROBE_PORT)
  if (!odd) return
  fail({
    node: name,
    look: onNode(name, LOOK_AT_PROBES),
    expected: `probes that all count new connections to port ${PROBE_PORT}`,
    actual: `-A ${odd.hook} ${odd.spec}`,
    hint: `Delete it, with -D in place of -A, and put in its place: ${INSERT.replace('PREROUTING', odd.hook)}`,
  })
}

/** The rules of one node are its own: no other node has a probe. */
export function probesOnOneNode(context: CheckContext): void {
  const { node } = probesInFiveHooks(context)
  for (const other of context.nodes) {
    const hook = other !== node && HOOKS.find((name) => probesIn(other.state.iptables)[name] !== undefined)
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
