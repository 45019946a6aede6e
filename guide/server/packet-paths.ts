// The path of a packet in each mode, and what the kernel counts and passes on while real ones are
// sent.

import type { Cluster } from '../../cluster/driver.ts'
import { copyPackets, type LinkPacket, packetOnItsWay } from '../../course/link-packets.ts'
import { pathOn, pathsOn } from '../../course/node-paths.ts'
import { podName, readLiveNode, resolveRoute, snapshotWithRoutes } from '../../course/read-node.ts'
import { familyOf, parseEndpoint, printEndpoint } from '../../dataplane/ip-address.ts'
import { parseIpvsadmStats } from '../../dataplane/ipvsadm-save.ts'
import { type Packet, parsePacket } from '../../dataplane/trace.ts'
import { countedOn } from '../../dataplane/view/counted-path.ts'
import { holdingsOf } from '../../dataplane/view/holdings.ts'
import type { PacketPath } from '../../dataplane/view/packet-path.ts'
import { type HttpReply, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { isMetWithin } from '../../host/wait.ts'
import { journeyFile, journeyPicture } from '../../slides/figures/journey-picture.ts'
import { drawPath } from '../../slides/figures/packets.ts'
import type { ActionArguments, ActionReplies, DrawnPath } from '../protocol.ts'

/**
 * The number of simultaneous connections when real packets are sent, and the timeout of each in
 * seconds.
 */
const CONNECTIONS = 20
const SECONDS = 1

/**
 * The paths of a packet, the node's own mode first; with `send`, real connections are made, the
 * first path carries what the kernel counted, and its journey is that of a packet which was copied
 * on every link. Throws Error with a sentence for a packet that does not exist, or can't be sent.
 */
export async function findPaths(
  live: LiveCluster,
  { from, to, node: requested, send }: ActionArguments<'path'>,
): Promise<ActionReplies['path']> {
  const { cluster } = live
  const snapshot = await snapshotWithRoutes(cluster)
  // Throws for a node that does not exist.
  if (requested !== undefined) snapshot.node(requested)
  const route = await resolveRoute(cluster, from, to, requested ?? nodeWith(snapshot, from, to))
  const packet = parsePacket(route.from, route.to)
  const before = await readCounting(cluster, route.node, packet)
  const paths = pathsOn(snapshot, route.node, before.state, packet)
  const [own, ...others] = paths as [PacketPath, ...PacketPath[]]
  if (!send) return { paths: paths.map(drawn) }
  const all = objectsOf(snapshot).nodes.map(({ name }) => name)
  // A packet begins on this node and ends there or on one other.
  const nodes = [route.node, ...all.filter((name) => name !== route.node)]
  const { sent, packets } = await copyPackets(cluster, nodes, () =>
    sendPackets(live, from, route.node, packet),
  )
  const links = packetOnItsWay(packets, nodes, [
    printEndpoint(packet.destination, packet.port),
    ...own.ends.flatMap(({ to }) => to ?? []),
  ])
  const taken = links.length > 0 ? endpointOf(links) : undefined
  const real = taken ? pathOn(snapshot, route.node, before.state, packet, taken) : own
  let first = real
  await isMetWithin(ESTIMATED_MS, async () => {
    const { holdings } = await readCounting(cluster, route.node, packet)
    first = countedOn(real, before.holdings, holdings, sent.length)
    return !isBehind(first, sent)
  })
  return {
    paths: [first, ...others].map(drawn),
    sent: { count: sent.length, output: summaryOf(sent), links },
  }
}

/**
 * The drawing of a path in one of kube-proxy's modes, as a file. Throws Error with a sentence as
 * findPaths does.
 */
export async function pictureOf(
  live: LiveCluster,
  { mode, ...asked }: ActionArguments<'picture'>,
): Promise<ActionReplies['picture']> {
  const { paths } = await findPaths(live, { ...asked, send: false })
  const path = paths.find((one) => one.mode === mode) ?? paths[0]
  const svg = path && journeyFile(path, `${asked.from} → ${asked.to}`)
  if (svg === undefined) throw new Error('The journey of this packet is not known.')
  const name = `${asked.from}-to-${asked.to}-${mode}`.replace(/[^\w.-]+/g, '-')
  return { name: `${name}.svg`, svg }
}

/** Where a packet was going when it was seen last. */
const endpointOf = (links: readonly LinkPacket[]): string | undefined => {
  const last = links.at(-1)
  return last && printEndpoint(last.destination, last.port)
}

/** A path with its drawings. */
export function drawn(path: PacketPath): DrawnPath {
  const picture = journeyPicture(path)
  return { ...path, drawing: drawPath(path), ...(picture && { picture }) }
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

/**
 * Makes connections from where the packet comes from, all at once, each with one request over HTTP.
 */
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
