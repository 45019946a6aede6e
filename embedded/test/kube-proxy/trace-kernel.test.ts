import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { type Trace, tracePacket } from '../../../dataplane/trace.ts'
import { flowLine, flowsOf, type RealFlow, readCounters, SENDER } from './real-flow.ts'
import { type ThreeNodes, webPods, worker, worker2 } from './three-nodes.ts'
import { type Mode, NOT_THE_FIRST, nodeOf, readNode, startTwoModes } from './two-modes.ts'

let nodes: ThreeNodes
beforeAll(async () => {
  nodes = await startTwoModes()
})
afterAll(() => nodes?.stop())

/** A flow that was sent, with the rules whose counters it moved and the lines it got. */
interface Sent {
  flow: RealFlow
  trace: Trace
  moved: string[]
  answers: string[]
}

/** Sends every flow of a mode, one after the other, in one go. */
async function sendAll(mode: Mode): Promise<Sent[]> {
  const gateway = `172.18.0.${nodeOf[mode] === worker ? 3 : 4}`
  const state: NodeState = await readNode(nodes, mode)
  const counted = await nodes.sh(nodeOf[mode], 'iptables-save -c')
  const traced = flowsOf(mode).map((flow) => ({ flow, trace: tracePacket(state, flow.packet) }))
  const routes = ['10.96.0.0/16', '172.18.255.0/24', '198.51.100.0/24'].map(
    (to) => `ip route replace ${to} via ${gateway}`,
  )
  await nodes.machine.write([{ path: '/run/sender.pl', content: SENDER }])
  const before = await nodes.machine.run([
    'sh',
    '-c',
    ['ip addr replace 203.0.113.9/32 dev lo', ...routes].join(';'),
  ])
  expect(before.stderr).toBe('')
  const { stdout, stderr } = await nodes.machine.run(
    ['perl', '/run/sender.pl'],
    {},
    {
      stdin: traced.map(({ flow, trace }) => `${flowLine(flow, trace)}\n`).join(''),
      timeoutMs: 200_000,
    },
  )
  expect(stderr).toBe('')
  const sections = stdout.split('==flow\n').slice(1)
  let counters = readCounters(counted)
  return traced.map((one, index) => {
    const [answers = '', after = ''] = (sections[index] ?? '').split('==counters\n')
    const now = readCounters(after)
    const moved = [...now].flatMap(([rule, packets]) =>
      packets > (counters.get(rule) ?? 0) ? [rule] : [],
    )
    counters = now
    const byFirst = moved.filter(
      (rule) => !/^filter -A [A-Z]+ /.test(rule) || !rule.endsWith(NOT_THE_FIRST),
    )
    return { ...one, moved: byFirst.sort(), answers: answers.trim().split('\n') }
  })
}

const podNamed: Record<string, string> = { web1: webPods[worker], web2: webPods[worker2] }

/** What is wrong between a trace and what its packets did; nothing for a trace that is right. */
function faultsOf({ flow, trace, moved, answers }: Sent): object | undefined {
  const named = [
    ...new Set(
      trace.hops.filter(({ table }) => table !== 'ipvs').map((hop) => `${hop.table} ${hop.rule}`),
    ),
  ]
  const faults: Record<string, unknown> = {}
  const unnamed = moved.filter((rule) => !named.includes(rule))
  const unmoved = flow.once ? [] : named.filter((rule) => !moved.includes(rule))
  if (unnamed.length > 0) faults.unnamed = unnamed
  if (unmoved.length > 0) faults.unmoved = unmoved
  if (!flow.countersOnly) {
    const wanted = otherEnds({ flow, trace, answers })
    if (wanted) faults.seen = { answers, wanted }
    const client = answers.find((answer) => isOtherClient({ flow, trace }, answer))
    if (client) faults.client = client
  }
  return Object.keys(faults).length === 0 ? undefined : { flow: flow.name, ...faults }
}

/**
 * The ends that a trace says if the packets did not meet them; a flow of one packet meets one of
 * them.
 */
function otherEnds({ flow, trace, answers }: Pick<Sent, 'flow' | 'trace' | 'answers'>) {
  const seen = answers.map((answer) => podNamed[answer.split(' ')[0] ?? ''] ?? answer)
  const backends = trace.outcomes.map(({ to }) => to.split(':')[0] ?? '')
  if (flow.once) return seen.length === 1 && backends.includes(seen[0] ?? '') ? undefined : backends
  const ends = { reject: ['refused'], drop: ['timeout'], dnat: backends, accept: backends }
  const wanted = ends[trace.verdict]
  const isSeen = [...new Set(seen)].sort().join() === wanted.toSorted().join()
  return isSeen ? undefined : wanted
}

/**
 * A Pod saw another client than the trace says. A node's own address is what a masqueraded packet
 * has, and its own packets may have from the start.
 */
function isOtherClient({ flow, trace }: Pick<Sent, 'flow' | 'trace'>, answer: string): boolean {
  if (flow.packet.from === 'host') return false
  const [pod = '', client] = answer.split(' ')
  const outcome = trace.outcomes.find(({ to }) => to.split(':')[0] === podNamed[pod])
  return outcome !== undefined && outcome.masquerade !== (client !== flow.packet.source)
}

describe.sequential('the trace names the rules and the ends of real packets', () => {
  test.each(['iptables', 'ipvs'] as const)('in %s mode', async (mode) => {
    const sent = await sendAll(mode)
    expect(sent.length).toBeGreaterThanOrEqual(40)
    expect(sent.map(faultsOf).filter((faults) => faults !== undefined)).toEqual([])
    // All ends are among them, and rules were really met.
    expect(new Set(sent.map(({ trace }) => trace.verdict))).toEqual(
      new Set(['dnat', 'accept', 'reject', 'drop']),
    )
    for (const { flow, moved } of sent)
      expect([flow.name, moved.length > 0]).toEqual([flow.name, true])
    // What a capture without routes lets derive leads every packet the same way.
    const { routes: _, ...state } = await readNode(nodes, mode)
    for (const { flow, trace } of sent) {
      const { hops, outcomes } = tracePacket(state, flow.packet)
      expect({ flow: flow.name, hops: hops.map(({ rule }) => rule), outcomes }).toEqual({
        flow: flow.name,
        hops: trace.hops.map(({ rule }) => rule),
        outcomes: trace.outcomes,
      })
    }
    // A trace that leaves a rule out, or names one too many, or another end, is found out.
    const [one] = sent as [Sent, ...Sent[]]
    const { hops, outcomes } = one.trace
    const extra = { ...hops[0], rule: '-A FORWARD -j DROP' } as Trace['hops'][number]
    for (const wrong of [
      { hops: hops.slice(1) },
      { hops: [...hops, extra] },
      { outcomes: outcomes.slice(1) },
    ])
      expect(faultsOf({ ...one, trace: { ...one.trace, ...wrong } })).toBeDefined()
    console.log(`${mode}: ${sent.length} flows`)
  })
})
