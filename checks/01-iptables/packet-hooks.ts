import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectOnNode, onNode } from '../../grading/difference-report.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { expectWithin } from '../../grading/expect-traffic.ts'
import { expectThat, Trouble } from '../../grading/failure.ts'
import { HOOKS, type Hook, type HookCounts, HookProbes, LOOK_AT_PROBES } from '../../grading/hook-probes.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { type NodeView, nodeAddressOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { CLIENT, clientPod } from '../02-ipvs/web-requests.ts'
import { CLIENT_MANIFEST } from './iptables-mode.ts'

/** Port of kube-proxy's health check: the only listener on every node without other clients. */
const PROBE_PORT = 10256
/** The learner's probes of this lab. */
const probes = new HookProbes('probe', PROBE_PORT)

/** Shell text that prints the counters of the probes of one address family. */
const readProbes = (command: 'iptables' | 'ip6tables' = 'iptables') =>
  `echo '#probes'; ${command}-save -c -t mangle; echo '#end'`

/** The readings in a script's output, in order. */
function parseProbes(stdout: string): HookCounts[] {
  return [...stdout.matchAll(/^#probes\n([\s\S]*?)^#end$/gm)].map(([, text = '']) =>
    probes.countsIn(parseIptablesSave(text)),
  )
}

/** The growth of each probe's counter between two readings: `PREROUTING 1, INPUT 1`; `none` if no counter grew. */
function movedBetween(before: HookCounts, after: HookCounts): string {
  const moved = HOOKS.flatMap((hook) => {
    const packets = (after[hook] ?? 0) - (before[hook] ?? 0)
    return packets === 0 ? [] : [`${hook} ${packets}`]
  })
  return moved.length > 0 ? moved.join(', ') : 'none'
}

/** The hooks of one packet, as `movedBetween` writes them. */
const once = (...hooks: Hook[]) => hooks.map((hook) => `${hook} 1`).join(', ')

/** The node with the learner's probes, and their counters; if there are several, the one with the most probes. */
function probedNode(nodes: readonly NodeView[]): { node: NodeView; counts: HookCounts } | undefined {
  const probed = nodes
    .map((node) => ({ node, counts: probes.countsIn(stateOf(node).iptables) }))
    .filter(({ counts }) => Object.keys(counts).length > 0)
  return probed.sort((a, b) => Object.keys(b.counts).length - Object.keys(a.counts).length)[0]
}

/** A probe is in each of the five hooks of one node. */
export function probesInFiveHooks({ nodes }: CheckContext): { node: NodeView; counts: HookCounts } {
  const { node } = expectFound(probedNode(nodes), {
    inspect: onNode(nodes.at(-1)?.name ?? '', LOOK_AT_PROBES),
    expected: 'rules with the comment "probe" in the table mangle of one node',
    actual: 'no such rule on any node',
    hint: `On the node of the client Pod, for each hook: ${probes.addTo('PREROUTING')}`,
  })
  return { node, counts: probes.expectInEveryHook(node) }
}

/** Rules are per node: no other node has a probe. */
export function probesOnOneNode(context: CheckContext): void {
  const { node } = probesInFiveHooks(context)
  for (const other of context.nodes) {
    const hook = other !== node && HOOKS.find((name) => probes.countsIn(stateOf(other).iptables)[name] !== undefined)
    expectOnNode(other.name, LOOK_AT_PROBES, !hook, {
      expected: `probes on ${node.name} alone`,
      actual: `a probe in ${hook} of ${other.name}, too`,
      hint: `Delete it there: the same command with -D instead of -A.`,
    })
  }
}

/** Other traffic may be counted between two readings; the packet is sent up to this often. */
const ATTEMPTS = 3

/**
 * The counters match packets on the three paths through the five hooks. On a live cluster a packet is also sent on each path,
 * and must increase exactly the counters on that path.
 */
export async function threePathsCounted(context: CheckContext): Promise<void> {
  const { node, counts } = probesInFiveHooks(context)
  mustAddUp(node, counts)
  const { live, snapshot } = context
  if (!live) return
  const client = clientPod(context, CLIENT_MANIFEST)
  expectThat(client.node === node.name, {
    node: node.name,
    inspect: 'kubectl get pod client -o wide',
    expected: `the Pod client on ${node.name}, the node with the probes, which forwards what the Pod sends`,
    actual: `the Pod is on ${client.node}`,
    hint: `Put the probes on ${client.node} and delete them from ${node.name}.`,
  })
  const other = neighbourOf(node, snapshot)
  await mustMove(live, node.name, {
    packet: `from ${other.name} to a process of ${node.name}`,
    hooks: once('PREROUTING', 'INPUT'),
    send: () => live.onNode(other.name, knock(nodeAddressOf(snapshot, node.name))),
  })
  await mustMove(live, node.name, {
    packet: `from the Pod client to ${other.name}`,
    hooks: once('PREROUTING', 'FORWARD', 'POSTROUTING'),
    send: () => live.inPod(CLIENT, knock(nodeAddressOf(snapshot, other.name))),
  })
  await mustMove(live, node.name, {
    packet: `from a process of ${node.name} to ${other.name}`,
    hooks: once('OUTPUT', 'POSTROUTING'),
    send: () => live.onNode(node.name, knock(nodeAddressOf(snapshot, other.name))),
  })
}

/** Another node. */
function neighbourOf(node: NodeView, { nodes }: Snapshot): NodeView {
  const other = nodes.find((candidate) => candidate !== node)
  if (!other) throw new Trouble('a cluster of one node forwards nothing to another')
  return other
}

/** Shell text: one connection to the health check of kube-proxy, which is one SYN. */
const knock = (address: string) => `curl -s -o /dev/null --max-time 3 http://${address}:${PROBE_PORT}/healthz`

/** Each packet that entered was delivered or forwarded, each that left came from a process or was forwarded. */
function mustAddUp({ name }: NodeView, counts: HookCounts): void {
  const { PREROUTING = 0, INPUT = 0, FORWARD = 0, OUTPUT = 0, POSTROUTING = 0 } = counts
  const silent = Object.entries(counts).find(([, packets]) => packets === 0)?.[0]
  const inspect = onNode(name, LOOK_AT_PROBES)
  expectThat(silent === undefined, {
    node: name,
    inspect,
    expected: 'packets on all five probes: one to a process of the node, one forwarded, one from a process of the node',
    actual: `none in ${silent}`,
  })
  expectThat(PREROUTING === INPUT + FORWARD && POSTROUTING === FORWARD + OUTPUT, {
    node: name,
    inspect,
    expected: 'as many packets in PREROUTING as in INPUT and FORWARD, in POSTROUTING as in FORWARD and OUTPUT',
    actual: `PREROUTING ${PREROUTING}, INPUT ${INPUT}, FORWARD ${FORWARD}, OUTPUT ${OUTPUT}, POSTROUTING ${POSTROUTING}`,
    hint: `The probes do not all match the same packets, or one was dropped: ${onNode(name, 'iptables -t mangle -Z')} resets the counters.`,
  })
}

interface PacketRun {
  packet: string
  hooks: string
  send: () => Promise<{ exitCode: number }>
}

async function mustMove(live: LiveCluster, node: string, { packet, hooks, send }: PacketRun): Promise<void> {
  const measure = async () => {
    const [before] = parseProbes((await live.onNode(node, readProbes())).stdout)
    const { exitCode } = await send()
    const [after] = parseProbes((await live.onNode(node, readProbes())).stdout)
    if (!before || !after) throw new Trouble(`the counters of ${node} could not be read`)
    const moved = movedBetween(before, after)
    // Other traffic can only disturb counters; an unanswered packet will not be answered on a retry.
    if (exitCode !== 0) return { actual: `${moved}, and there was no answer`, isFinal: true }
    return moved === hooks ? undefined : { actual: moved }
  }
  const inspect = onNode(node, LOOK_AT_PROBES)
  await expectWithin(ATTEMPTS, measure, { node, inspect, expected: `${hooks} for one packet ${packet}` })
}

const LOOPBACK = `http://[::1]:${PROBE_PORT}/`
/** A packet from a node to itself leaves and enters; it is not forwarded. */
const THERE_AND_BACK = once('PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING')

/**
 * ip6tables has separate probes in the same five hooks. An IPv4 packet increases none of them, and an IPv6 packet none of
 * iptables.
 */
export async function familiesAreSeparate(context: CheckContext): Promise<void> {
  const { node } = probesInFiveHooks(context)
  const { live, snapshot } = context
  if (!live) throw new Trouble('no cluster to send packets in')
  const inspect = onNode(node.name, 'ip6tables -t mangle -nvL')
  const readings = [readProbes(), readProbes('ip6tables')].join('\n')
  const script = [
    readings,
    knock(nodeAddressOf(snapshot, neighbourOf(node, snapshot).name)),
    readings,
    `ip -6 -o addr show lo | grep -q ::1/ && { echo '#sent'; curl -g -s -o /dev/null --max-time 2 '${LOOPBACK}'; }`,
    readings,
  ].join('\n')
  const measure = async () => {
    const { stdout } = await live.onNode(node.name, script)
    const [four0, six0, four1, six1, four2, six2] = parseProbes(stdout)
    if (!four0 || !six0 || !four1 || !six1 || !four2 || !six2)
      throw new Trouble(`the counters of ${node.name} could not be read`)
    const bare = HOOKS.filter((hook) => six0[hook] === undefined)
    expectThat(bare.length === 0, {
      node: node.name,
      inspect,
      expected: `a probe of ip6tables in each of ${HOOKS.join(', ')}`,
      actual: `none in ${bare.join(', ')}`,
      hint: 'The same five commands with ip6tables in place of iptables.',
    })
    const byFour = movedBetween(six0, six1)
    const bySix = stdout.includes('#sent') ? movedBetween(six1, six2) : THERE_AND_BACK
    const fourBySix = movedBetween(four1, four2)
    if (byFour === 'none' && bySix === THERE_AND_BACK && fourBySix === 'none') return
    return {
      actual: `an IPv4 packet moved ${byFour} of ip6tables; an IPv6 packet moved ${bySix} of ip6tables and ${fourBySix} of iptables`,
    }
  }
  const expected = `ip6tables to count nothing for a packet of IPv4, and ${THERE_AND_BACK} for one to [::1]`
  await expectWithin(ATTEMPTS, measure, { node: node.name, inspect, expected })
}
