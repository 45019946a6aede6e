import { HOOKS } from '../../dataplane/trace/step.ts'
import type { CheckContext, LiveContext } from '../../grading/check-context.ts'
import { expectFound, expectOnNode, expectThat, onNode, Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import {
  countedBetween,
  type HookCounts,
  HookProbes,
  LOOK_AT_PROBES,
  onePacket,
} from '../../grading/packet-counters.ts'
import { type NodeView, nodeAddressOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { expectWithin } from '../../grading/traffic.ts'
import type { ExecResult } from '../../host/shell-word.ts'
import { clientPod } from '../web-client.ts'

/** Port of kube-proxy's health check: the only listener on every node without other clients. */
export const PROBE_PORT = 10256
const probes = new HookProbes('probe', PROBE_PORT)

/**
 * The node with the learner's probes, and their counters; if there are several, the one with the
 * most probes.
 */
function probedNode(
  nodes: readonly NodeView[],
): { node: NodeView; counts: HookCounts } | undefined {
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
    const hook =
      other !== node &&
      HOOKS.find((name) => probes.countsIn(stateOf(other).iptables)[name] !== undefined)
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
 * The counters match packets on the three paths through the hooks; live, a packet on each path
 * increases exactly its counters.
 */
export async function threePathsCounted(context: CheckContext): Promise<void> {
  const { node, counts } = probesInFiveHooks(context)
  expectSums(node, counts)
  const { live, snapshot } = context
  if (!live) return
  const client = clientPod(context, '01-iptables')
  expectThat(client.node === node.name, {
    node: node.name,
    inspect: 'kubectl get pod client -o wide',
    expected: `the Pod client on ${node.name}, the node with the probes, which forwards what the Pod sends`,
    actual: `the Pod is on ${client.node}`,
    hint: `Put the probes on ${client.node} and delete them from ${node.name}.`,
  })
  const other = neighbourOf(node, snapshot)
  const request = ({ name }: NodeView) => requestHealth(nodeAddressOf(snapshot, name))
  const paths = [
    {
      packet: `from ${other.name} to a process of ${node.name}`,
      counted: onePacket('PREROUTING', 'INPUT'),
      send: () => live.onNode(other.name, request(node)),
    },
    {
      packet: `from the Pod client to ${other.name}`,
      counted: onePacket('PREROUTING', 'FORWARD', 'POSTROUTING'),
      send: () => client.run(live, request(other)),
    },
    {
      packet: `from a process of ${node.name} to ${other.name}`,
      counted: onePacket('OUTPUT', 'POSTROUTING'),
      send: () => live.onNode(node.name, request(other)),
    },
  ]
  for (const path of paths) await expectProbesCount(live, node.name, path)
}

/** The probes of a node count a packet that is sent as they must. */
async function expectProbesCount(
  live: LiveCluster,
  node: string,
  { packet, counted, send }: { packet: string; counted: string; send(): Promise<ExecResult> },
): Promise<void> {
  const measure = async () => {
    const before = await probes.readOn(live, node)
    const { exitCode } = await send()
    const actual = countedBetween(before, await probes.readOn(live, node))
    // Other traffic can only disturb counters; an unanswered packet will not be answered on a
    // retry.
    if (exitCode !== 0) return { actual: `${actual}, and there was no answer`, isFinal: true }
    return actual === counted ? undefined : { actual }
  }
  const expected = `${counted} for one packet ${packet}`
  await expectWithin(ATTEMPTS, measure, { node, inspect: onNode(node, LOOK_AT_PROBES), expected })
}

function neighbourOf(node: NodeView, { nodes }: Snapshot): NodeView {
  const other = nodes.find((candidate) => candidate !== node)
  if (!other) throw new Trouble('a cluster of one node forwards nothing to another')
  return other
}

/** Shell text: one connection to the health check of kube-proxy, which is one SYN. */
const requestHealth = (address: string) =>
  `curl -g -s -o /dev/null --max-time 3 http://${address}:${PROBE_PORT}/healthz`

/**
 * Each packet that entered was delivered or forwarded, each that left came from a process or was
 * forwarded.
 */
function expectSums({ name }: NodeView, counts: HookCounts): void {
  const { PREROUTING = 0, INPUT = 0, FORWARD = 0, OUTPUT = 0, POSTROUTING = 0 } = counts
  const silent = Object.entries(counts).find(([, packets]) => packets === 0)?.[0]
  expectOnNode(name, LOOK_AT_PROBES, silent === undefined, {
    expected:
      'packets on all five probes: one to a process of the node, one forwarded, one from a process of the node',
    actual: `none in ${silent}`,
  })
  expectOnNode(
    name,
    LOOK_AT_PROBES,
    PREROUTING === INPUT + FORWARD && POSTROUTING === FORWARD + OUTPUT,
    {
      expected:
        'as many packets in PREROUTING as in INPUT and FORWARD, in POSTROUTING as in FORWARD and OUTPUT',
      actual: `PREROUTING ${PREROUTING}, INPUT ${INPUT}, FORWARD ${FORWARD}, OUTPUT ${OUTPUT}, POSTROUTING ${POSTROUTING}`,
      hint: `The probes do not all match the same packets, or one was dropped: ${onNode(name, 'iptables -t mangle -Z')} resets the counters.`,
    },
  )
}

/** A packet from a node to itself leaves and enters; it is not forwarded. */
const THERE_AND_BACK = onePacket('PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING')

/**
 * ip6tables has separate probes in the same five hooks. An IPv4 packet increases none of them, and
 * an IPv6 packet none of iptables.
 */
export async function familiesAreSeparate(context: LiveContext): Promise<void> {
  const { node } = probesInFiveHooks(context)
  const { live, snapshot } = context
  const { name } = node
  const list = 'ip6tables -t mangle -nvL'
  const read = async () =>
    [await probes.readOn(live, name), await probes.readOn(live, name, 'ip6tables')] as const
  const [, six] = await read()
  const bare = HOOKS.filter((hook) => six[hook] === undefined)
  expectOnNode(name, list, bare.length === 0, {
    expected: `a probe of ip6tables in each of ${HOOKS.join(', ')}`,
    actual: `none in ${bare.join(', ')}`,
    hint: 'The same five commands with ip6tables in place of iptables.',
  })
  const loopback = (await live.readOnNode(name, 'ip -6 -o addr show lo')).stdout.includes(' ::1/')
  const measure = async () => {
    const [, sixBefore] = await read()
    await live.onNode(
      name,
      requestHealth(nodeAddressOf(snapshot, neighbourOf(node, snapshot).name)),
    )
    const [fourBetween, sixBetween] = await read()
    if (loopback) await live.onNode(name, requestHealth('[::1]'))
    const [fourAfter, sixAfter] = await read()
    const byFour = countedBetween(sixBefore, sixBetween)
    const bySix = loopback ? countedBetween(sixBetween, sixAfter) : THERE_AND_BACK
    const fourBySix = countedBetween(fourBetween, fourAfter)
    if (byFour === 'none' && bySix === THERE_AND_BACK && fourBySix === 'none') return
    return {
      actual: `an IPv4 packet moved ${byFour} of ip6tables; an IPv6 packet moved ${bySix} of ip6tables and ${fourBySix} of iptables`,
    }
  }
  const expected = `ip6tables to count nothing for a packet of IPv4, and ${THERE_AND_BACK} for one to [::1]`
  await expectWithin(ATTEMPTS, measure, { node: name, inspect: onNode(name, list), expected })
}
