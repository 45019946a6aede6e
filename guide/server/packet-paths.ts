// The path of a packet in each mode, and what the kernel counts while real ones are sent.

import type { Cluster } from '../../cluster/driver.ts'
import { podName, readLiveNode, resolveRoute } from '../../course/read-node.ts'
import { familyOf, parseEndpoint } from '../../dataplane/ip-address.ts'
import { parseIpvsadmStats } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type Packet, parsePacket } from '../../dataplane/trace.ts'
import { countedOn } from '../../dataplane/view/counted-path.ts'
import { holdingsOf } from '../../dataplane/view/holdings.ts'
import type { Surroundings } from '../../dataplane/view/journey.ts'
import { type PacketPath, pathsInAllModes } from '../../dataplane/view/packet-path.ts'
import { predictOptions } from '../../grading/evaluate.ts'
import { Trouble } from '../../grading/failure.ts'
import { type HttpReply, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { modeOf, objectsOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { isMetWithin } from '../../host/wait.ts'
import { drawPath } from '../../slides/figures/packets.ts'
import type { ActionArguments, ActionReplies } from '../protocol.ts'

/** The number of simultaneous connections when real packets are sent, and the timeout of each in seconds. */
const CONNECTIONS = 20
const SECONDS = 1

/**
 * The paths of a packet, the node's own mode first; with `send`, real connections are made and the first path carries what the
 * kernel counted. Throws Error with a sentence for a packet that does not exist, or can't be sent.
 */
export async function findPaths(
  live: LiveCluster,
  snapshot: Snapshot,
  { from, to, node: wish, send }: ActionArguments<'path'>,
): Promise<ActionReplies['path']> {
  const { cluster } = live
  // Throws for a node that does not exist.
  if (wish !== undefined) snapshot.node(wish)
  const route = await resolveRoute(cluster, from, to, wish ?? nodeWith(snapshot, from, to))
  const packet = parsePacket(route.from, route.to)
  const before = await readCounting(cluster, route.node, packet)
  const sent = send ? await sendPackets(live, from, route.node, packet) : undefined
  const [own, ...others] = pathsOn(snapshot, route.node, before.state, packet) as [
    PacketPath,
    ...PacketPath[],
  ]
  let first = own
  if (sent)
    await isMetWithin(ESTIMATED_MS, async () => {
      const { holdings } = await readCounting(cluster, route.node, packet)
      first = countedOn(own, before.holdings, holdings, sent.length)
      return !isBehind(first, sent)
    })
  const paths = [first, ...others].map((path) => ({ ...path, drawing: drawPath(path) }))
  return { paths, sent: sent && { count: sent.length, output: summaryOf(sent) } }
}

/** The paths of a packet through a node of a snapshot with this state, in the node's own mode first. */
export function pathsOn(
  snapshot: Snapshot,
  node: string,
  state: NodeState,
  packet: Packet,
): PacketPath[] {
  const view = snapshot.node(node)
  return pathsInAllModes(state, objectsOf(snapshot), packet, {
    ...predictOptions(view, 'iptables'),
    family: familyOf(packet.destination) ?? 'ipv4',
    mode: modeOf(view) ?? 'unknown',
    isService: isOfService(snapshot, packet, node),
    surroundings: surroundingsIn(snapshot),
  })
}

/** Where Pods are, and what nodes hold that can be read. */
function surroundingsIn(snapshot: Snapshot): Surroundings {
  const pods = snapshot.items.filter(({ kind, spec }) => kind === 'Pod' && !spec?.hostNetwork)
  return {
    nodeOfPod: (address) => pods.find(({ status }) => status?.podIP === address)?.spec?.nodeName,
    stateOf(node) {
      try {
        return stateOf(snapshot.node(node))
      } catch (error) {
        if (error instanceof Trouble) return undefined
        throw error
      }
    },
  }
}

/** The kernel adds up the statistics of IPVS every 2 s (net/netfilter/ipvs/ip_vs_est.c). */
const ESTIMATED_MS = 2500

/** Whether the real servers have counted fewer connections than were answered. */
function isBehind({ hooks }: PacketPath, sent: readonly HttpReply[]): boolean {
  const counts = hooks.flatMap(({ actions }) =>
    actions.flatMap(({ table, counted }) => (table === 'ipvs' ? (counted ?? []) : [])),
  )
  const counted = counts.reduce((sum, one) => sum + one, 0)
  return counts.length > 0 && counted < sent.filter(({ status }) => status > 0).length
}

/** A packet to an address of a node arrives there, unless a Pod of another node sends it. */
function nodeWith(snapshot: Snapshot, from: string, to: string): string | undefined {
  if (from.startsWith('pod')) return undefined
  const { address = '' } = parseEndpoint(to.replace(/\/\w+$/, '')) ?? {}
  return objectsOf(snapshot).nodes.find(({ internalIPs }) => internalIPs.includes(address))?.name
}

/** What a node holds, with the number of connections of each real server so far. */
async function readCounting(cluster: Cluster, node: string, { destination }: Packet) {
  const { files, state } = await readLiveNode(cluster, node, destination)
  const connections = parseIpvsadmStats(files.get('ipvsadm-stats') ?? '')
  return { state, holdings: holdingsOf(node, state, { connections }) }
}

/** Makes connections from where the packet comes from, all at once, each with one request over HTTP. */
async function sendPackets(
  live: LiveCluster,
  from: string,
  node: string,
  packet: Packet,
): Promise<HttpReply[]> {
  const { destination, port, protocol } = packet
  if (protocol !== 'tcp' || familyOf(destination) !== 'ipv4')
    throw new Error(
      `Only TCP over IPv4 is sent, not "${destination}/${protocol}"; the path is shown without sending.`,
    )
  const script = httpRequests(
    Array.from({ length: CONNECTIONS }, () => ({ address: destination, port, seconds: SECONDS })),
  )
  const [, namespace = 'default', name] = podName.exec(from) ?? []
  if (name !== undefined) return readReplies((await live.inPod({ namespace, name }, script)).stdout)
  if (from === 'host') return readReplies((await live.onNode(node, script)).stdout)
  if (from === OUTSIDE) return readReplies((await live.onNode(OUTSIDE, script)).stdout)
  throw new Error(`Nothing can be sent from "${from}": choose a Pod by its name, host or outside.`)
}

/** `7 answers: web-7d9f-x2x4p`, by what the replies say. */
function summaryOf(replies: readonly HttpReply[]): string {
  const counts = new Map<string, number>()
  for (const { status, line, error } of replies) {
    const text = status > 0 ? `answered ${status}: ${line}` : `no answer: ${error}`
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  return [...counts].map(([text, count]) => `${count} × ${text}`).join('\n')
}

/** Whether the node is to take the packet to an endpoint: one to an address of a Service, or to a node port at its own address. */
function isOfService(snapshot: Snapshot, { destination, port }: Packet, node: string): boolean {
  const { services, nodes } = objectsOf(snapshot)
  const isOwn = nodes.some(
    ({ name, internalIPs }) => name === node && internalIPs.includes(destination),
  )
  return services.some(({ clusterIPs, externalIPs, loadBalancerIngress, ports }) => {
    const addresses = [...clusterIPs, ...externalIPs, ...loadBalancerIngress.map(({ ip }) => ip)]
    return (
      addresses.includes(destination) || (isOwn && ports.some(({ nodePort }) => nodePort === port))
    )
  })
}
