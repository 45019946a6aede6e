// The path of a packet as the page draws it, and the same packet really sent, with what the kernel counted meanwhile.

import type { Cluster } from '../../cluster/driver.ts'
import { resolveRoute, stateOfNode } from '../../course/live-node.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type Packet, parsePacket } from '../../dataplane/trace.ts'
import { holdingsOf } from '../../dataplane/view/holdings.ts'
import { countedOn, type PacketPath, pathsInAllModes } from '../../dataplane/view/packet-path.ts'
import { predictOptions } from '../../grading/evaluate.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../host/outside.ts'
import { plainText } from '../../host/plain-text.ts'
import { drawPath } from '../../slides/figures/packets.ts'
import type { ActionArguments, ActionReplies, DrawnPath } from '../protocol.ts'
import { readConnections } from './dataplane-view.ts'

/** New connections that one click sends, all at once: enough to see how they are shared. */
const COUNT = 10
/** What the sending script exits with where its program is missing. */
const NO_PROGRAM = 127

type Asked = ActionArguments<'path'>

/** The paths of a packet in each mode. Throws Error with a sentence for ends that don't exist, and for origins that can't send. */
export async function packetPaths(live: LiveCluster, snapshot: Snapshot, asked: Asked): Promise<ActionReplies['path']> {
  const { cluster } = live
  const { from, to, node: nodeName } = await routeOf(cluster, snapshot, asked)
  const packet = parsePacket(from, to)
  const node = snapshot.node(nodeName)
  const mode = asMode(node.mode)
  const own = { ...predictOptions(node, mode), isService: isOfService(snapshot, packet) }
  const before = await heldNow(cluster, node, packet)
  const paths = pathsInAllModes(before.state, snapshot.objects, packet, own)
  const [real, ...others] = paths
  if (!asked.send || !real) return { paths: paths.map(drawn) }
  const output = await sendPackets(live, asked.from, nodeName, packet)
  const after = await heldNow(cluster, node, packet)
  return {
    paths: [countedOn(real, before.holdings, after.holdings, COUNT), ...others].map(drawn),
    sent: { count: COUNT, output },
  }
}

const drawn = (path: PacketPath): DrawnPath => ({ ...path, drawing: drawPath(path) })

/** The ends with addresses, and the node that the packet passes: that of the address, if the destination is one of a node. */
async function routeOf(cluster: Cluster, { objects }: Snapshot, { from, to, node }: Asked) {
  const address = to.split(':')[0] ?? ''
  const owner = objects.nodes.find(({ internalIPs }) => internalIPs.includes(address))
  const wish = node ?? (from === OUTSIDE ? owner?.name : undefined)
  const route = await resolveRoute(cluster, from, to, wish)
  if (from !== OUTSIDE) return route
  const { stdout } = await cluster.exec(OUTSIDE, ['sh', '-c', printOutsideAddresses])
  return { ...route, from: `external:${readOutsideAddresses(stdout).own}` }
}

function asMode(mode: string | undefined) {
  if (mode === 'iptables' || mode === 'ipvs' || mode === 'nftables' || mode === 'userspace') return mode
  throw new Error('kube-proxy of this node reports no mode: `make kube-proxy-logs` shows why.')
}

function isOfService({ objects }: Snapshot, { destination, port }: Packet): boolean {
  return objects.services.some(
    ({ clusterIPs, externalIPs, loadBalancerIngress, ports }) =>
      [...clusterIPs, ...externalIPs, ...loadBalancerIngress.map(({ ip }) => ip)].includes(destination) ||
      ports.some(({ nodePort }) => nodePort === port),
  )
}

/** What a node holds now, with its counters. */
async function heldNow(cluster: Cluster, node: NodeView, { destination }: Packet) {
  const [state, connections]: [NodeState, Awaited<ReturnType<typeof readConnections>>] = await Promise.all([
    stateOfNode(cluster, node.name, destination),
    readConnections(cluster, node.name),
  ])
  return { state, holdings: holdingsOf(node.name, state, { mode: node.mode, connections }) }
}

/** Sends new connections from where the packet comes from. Returns what came of them, one line for each result. */
async function sendPackets(live: LiveCluster, from: string, node: string, packet: Packet): Promise<string> {
  const [, namespace = 'default', pod] = /^pod\/(?:([a-z0-9.-]+)\/)?([a-z0-9.-]+)$/.exec(from) ?? []
  const place = pod !== undefined || from === 'host' || from === OUTSIDE
  if (!place) throw new Error(`Nothing can be sent from "${from}": choose a Pod, host or outside.`)
  const script = sendScript(packet)
  const { exitCode, stdout } = pod
    ? await live.inPod({ namespace, name: pod }, script)
    : await live.onNode(from === OUTSIDE ? OUTSIDE : node, script)
  if (exitCode === NO_PROGRAM)
    throw new Error(`"${from}" has no program to send ${packet.protocol} with: choose another origin.`)
  const counts = new Map<string, number>()
  const lines = stdout.split('\n').filter((line) => line !== '')
  for (const line of lines.map((one) => plainText(one.replace(/^curl: \(\d+\) /, '').replace(/ after \d+ m.*$/, ''))))
    counts.set(line, (counts.get(line) ?? 0) + 1)
  return [...counts].map(([line, count]) => `${count} × ${line}`).join('\n')
}

/** Shell: opens the connections at the same time and prints one line for each. */
function sendScript({ destination, port, protocol }: Packet): string {
  const times = Array.from({ length: COUNT }, (_, index) => index + 1).join(' ')
  const host = destination.includes(':') ? `[${destination}]` : destination
  if (protocol === 'tcp')
    return `command -v curl >/dev/null || exit ${NO_PROGRAM}
for time in ${times}; do
  curl -sS -o /dev/null --noproxy '*' --connect-timeout 2 -m 3 -w 'HTTP %{http_code}\\n' http://${host}:${port}/ 2>&1 | grep -v '^HTTP 000' &
done
wait`
  if (protocol === 'udp')
    return `command -v bash >/dev/null || exit ${NO_PROGRAM}
for time in ${times}; do bash -c 'echo >/dev/udp/${destination}/${port}' 2>&1 && echo sent; done`
  throw new Error('SCTP packets can only be predicted: no program here sends them.')
}
