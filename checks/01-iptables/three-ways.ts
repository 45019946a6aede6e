import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import { type HookCounts, LOOK_AT_PROBES } from '../../grading/hook-probes.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { CLIENT, clientPod } from '../02-ipvs/web-requests.ts'
import { movedBetween, once, PROBE_PORT, parseProbes, readProbes } from './hook-counters.ts'
import { CLIENT_MANIFEST } from './iptables-mode.ts'
import { probesInFiveHooks } from './probes.ts'

/** Somebody else's packet may fall between two readings; so often a packet is sent anew. */
const ATTEMPTS = 3

/**
 * The learner's packets left the counts that three ways through five hooks must leave. On a live cluster a packet is sent on
 * each way, too, and must move exactly the probes of its own.
 */
export async function threeWaysCounted(context: CheckContext): Promise<void> {
  const { node, counts } = probesInFiveHooks(context)
  mustAddUp(node, counts)
  const { live, snapshot } = context
  if (!live) return
  const client = clientPod(context, CLIENT_MANIFEST)
  if (client.node !== node.name)
    fail({
      node: node.name,
      look: 'kubectl get pod client -o wide',
      expected: `the Pod client on ${node.name}, the node with the probes, which forwards what the Pod sends`,
      actual: `the Pod is on ${client.node}`,
      hint: `Put the probes on ${client.node} and delete them from ${node.name}.`,
    })
  const other = neighbourOf(node, snapshot)
  await mustMove(live, node.name, {
    packet: `from ${other.name} to a process of ${node.name}`,
    hooks: once('PREROUTING', 'INPUT'),
    send: () => live.onNode(other.name, knock(addressOf(snapshot, node.name))),
  })
  await mustMove(live, node.name, {
    packet: `from the Pod client to ${other.name}`,
    hooks: once('PREROUTING', 'FORWARD', 'POSTROUTING'),
    send: () => live.inPod(CLIENT, knock(addressOf(snapshot, other.name))),
  })
  await mustMove(live, node.name, {
    packet: `from a process of ${node.name} to ${other.name}`,
    hooks: once('OUTPUT', 'POSTROUTING'),
    send: () => live.onNode(node.name, knock(addressOf(snapshot, other.name))),
  })
}

/** Any other node than that one. */
export function neighbourOf(node: NodeView, { nodes }: Snapshot): NodeView {
  const other = nodes.find((candidate) => candidate !== node)
  if (!other) throw new Trouble('a cluster of one node forwards nothing to another')
  return other
}

export const addressOf = ({ objects }: Snapshot, node: string) =>
  objects.nodes.find(({ name }) => name === node)?.internalIPs[0] ?? node

/** Shell text: one connection to the health check of kube-proxy, which is one SYN. */
export const knock = (address: string) => `curl -s -o /dev/null --max-time 3 http://${address}:${PROBE_PORT}/healthz`

/** Each packet that entered went in or on, each that left came from a process or from elsewhere. */
function mustAddUp({ name }: NodeView, counts: HookCounts): void {
  const { PREROUTING = 0, INPUT = 0, FORWARD = 0, OUTPUT = 0, POSTROUTING = 0 } = counts
  const silent = Object.entries(counts).find(([, packets]) => packets === 0)?.[0]
  const look = onNode(name, LOOK_AT_PROBES)
  if (silent !== undefined)
    fail({
      node: name,
      look,
      expected:
        'packets on all five probes: one to a process of the node, one forwarded, one from a process of the node',
      actual: `none in ${silent}`,
    })
  if (PREROUTING === INPUT + FORWARD && POSTROUTING === FORWARD + OUTPUT) return
  fail({
    node: name,
    look,
    expected: 'as many packets in PREROUTING as in INPUT and FORWARD, in POSTROUTING as in FORWARD and OUTPUT',
    actual: `PREROUTING ${PREROUTING}, INPUT ${INPUT}, FORWARD ${FORWARD}, OUTPUT ${OUTPUT}, POSTROUTING ${POSTROUTING}`,
    hint: `The probes do not all match the same packets, or one was dropped on its way: ${onNode(name, 'iptables -t mangle -Z')} begins anew.`,
  })
}

interface Way {
  packet: string
  hooks: string
  send: () => Promise<{ exitCode: number }>
}

async function mustMove(live: LiveCluster, node: string, { packet, hooks, send }: Way): Promise<void> {
  let said = ''
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const [before] = parseProbes((await live.onNode(node, readProbes())).stdout)
    const { exitCode } = await send()
    const [after] = parseProbes((await live.onNode(node, readProbes())).stdout)
    if (!before || !after) throw new Trouble(`the counters of ${node} could not be read`)
    const moved = movedBetween(before, after)
    if (exitCode === 0 && moved === hooks) return
    said = exitCode === 0 ? moved : `${moved}, and no answer came`
    // Only counters can be disturbed by others; a packet that nobody answered will not be answered.
    if (exitCode !== 0) break
  }
  fail({
    node,
    look: onNode(node, LOOK_AT_PROBES),
    expected: `${hooks} for one packet ${packet}`,
    actual: said,
  })
}
