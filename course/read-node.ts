import { existsSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, kubeClient, unlessCode } from '../cluster/kube-client.ts'
import { chosenNode } from '../cluster/select.ts'
import { readNode, takeCapture } from '../cluster/snapshot.ts'
import { CAPTURE_FILES, readCapturedNode } from '../dataplane/capture.ts'
import { type Family, familyOf } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type Packet, parsePacket } from '../dataplane/trace.ts'
import { Snapshot } from '../grading/snapshot.ts'
import { Refusal } from '../host/main.ts'
import { isFolder, readPlainFile } from '../host/plain-file.ts'

/** Origin, destination and node of a packet, with names resolved to addresses. */
interface LiveRoute {
  from: string
  to: string
  node: string
}

/** `pod/[NAMESPACE/]NAME`. */
export const podName = /^pod\/(?:([a-z0-9.-]+)\/)?([a-z0-9.-]+)$/
/** The last word after a slash is a protocol, not the name of a Service in a namespace. */
const serviceName =
  /^svc\/(?:([a-z0-9.-]+)\/(?!(?:tcp|udp|sctp)$))?([a-z0-9.-]+)(?::(\d+))?(?:\/(\w+))?$/

/**
 * Looks up `pod/[NAMESPACE/]NAME` and `svc/[NAMESPACE/]NAME[:PORT][/udp]`; anything else is
 * unchanged. The node is the requested one, else the Pod's, else the first worker. Throws Refusal
 * for a Pod or Service that does not exist or has no address, and for a port that the Service does
 * not have.
 */
export async function resolveRoute(
  cluster: Cluster,
  from: string,
  to: string,
  requested?: string,
): Promise<LiveRoute> {
  const client = await kubeClient(cluster)
  const origin = await resolveOrigin(client, from)
  const destination = await resolveDestination(client, to)
  const node = await chosenNode(cluster, requested ?? origin.node)
  return { from: origin.from, to: destination, node }
}

const noSuchObject = (what: string): Refusal =>
  new Refusal(`There is no ${what}; \`kubectl get pods,services -A\` lists the existing ones.`)

/** The address of `pod/[NAMESPACE/]NAME`, and the Pod's node; anything else is unchanged. */
async function resolveOrigin(
  { core }: KubeClient,
  from: string,
): Promise<{ from: string; node?: string | undefined }> {
  const [, namespace = 'default', pod] = podName.exec(from) ?? []
  if (!pod) return { from }
  const found = await unlessCode(404, core.readNamespacedPod({ namespace, name: pod }))
  if (!found) throw noSuchObject(`Pod "${pod}" in namespace "${namespace}"`)
  const { spec, status } = found
  if (!status?.podIP)
    throw new Refusal(
      `Pod "${pod}" has no address yet; \`kubectl get pod ${pod} -o wide\` shows it.`,
    )
  return { from: spec?.hostNetwork ? 'host' : `pod:${status.podIP}`, node: spec?.nodeName }
}

/** The address and port of `svc/[NAMESPACE/]NAME[:PORT][/udp]`; anything else is unchanged. */
async function resolveDestination({ core }: KubeClient, to: string): Promise<string> {
  const [, namespace = 'default', service, port, protocol] = serviceName.exec(to) ?? []
  if (!service) return to
  const found = await unlessCode(404, core.readNamespacedService({ namespace, name: service }))
  if (!found) throw noSuchObject(`Service "${service}" in namespace "${namespace}"`)
  const { spec } = found
  const address = spec?.clusterIP
  if (!address || address === 'None')
    throw new Refusal(
      `Service "${service}" has no ClusterIP: DNS returns the addresses of its Pods.`,
    )
  const chosen = chosenPort(service, spec.ports ?? [], port, protocol)
  return `${address.includes(':') ? `[${address}]` : address}:${chosen}`
}

/**
 * `80/tcp`, the port of a Service with that number and protocol; without a number its first port of
 * the protocol. Throws Refusal with the ports that the Service has.
 */
function chosenPort(
  service: string,
  ports: readonly { port: number; protocol?: string }[],
  port?: string,
  protocol?: string,
): string {
  const names = ports.map(({ port, protocol = 'TCP' }) => `${port}/${protocol.toLowerCase()}`)
  const isWanted = (name: string) => {
    const [number, of] = name.split('/')
    const wanted = protocol ?? (port === undefined ? of : 'tcp')
    return (port === undefined || number === port) && of === wanted
  }
  const found = names.find(isWanted)
  if (found !== undefined) return found
  const asked = [port ?? '', protocol ?? 'tcp'].filter(Boolean).join('/')
  throw new Refusal(
    `Service "${service}" has no port ${asked}; it has ${names.join(', ') || 'none'}. With the ClusterIP in place of the name, a packet to any port is traced.`,
  )
}

/**
 * The files and the state of a node of a live cluster, read with one exec. Throws Refusal with
 * every error in its output.
 */
export async function readLiveNode(cluster: Cluster, node: string, destination: string) {
  const { files } = await readNode(cluster, node, 'with routes')
  return { files, state: readable(node, files, familyOf(destination)) }
}

/** A packet, and the state of the node whose rules it meets. */
interface PacketOnNode {
  packet: Packet
  state: NodeState
}

/**
 * A packet of a running cluster, with the name of its node. Throws Refusal as resolveRoute and
 * readLiveNode do.
 */
export async function livePacket(
  cluster: Cluster,
  from: string,
  to: string,
  requested?: string,
): Promise<PacketOnNode & { node: string }> {
  const { node, ...route } = await resolveRoute(cluster, from, to, requested)
  const packet = parsePacket(route.from, route.to)
  return { packet, node, state: (await readLiveNode(cluster, node, packet.destination)).state }
}

/** A packet on a node of a capture. Throws Refusal as recordedNode does. */
export function recordedPacket(
  capture: string,
  from: string,
  to: string,
  requested: string,
): PacketOnNode & { node: string } {
  const packet = parsePacket(from, to)
  const node = requested || basename(nodeFolder(capture, requested))
  return { packet, node, state: recordedNode(capture, requested, familyOf(packet.destination)) }
}

/**
 * A running cluster with what determines a packet's path: routes choose interfaces and addresses.
 * Throws as takeCapture does.
 */
export async function snapshotWithRoutes(cluster: Cluster): Promise<Snapshot> {
  return new Snapshot(await takeCapture(cluster, await kubeClient(cluster), 'with routes'))
}

function readable(
  name: string,
  files: ReadonlyMap<string, string>,
  family: Family | undefined,
): NodeState {
  const { state, faults } = readCapturedNode(files, { family })
  if (faults.length === 0) return state
  throw new Refusal(`${name} cannot be read: ${faults.map(({ message }) => message).join('\n  ')}`)
}

/**
 * The state of a node in a capture, with the rules of one address family. `capture` may also be the
 * folder of one node's files; `node` may be empty if there is only one.
 * @throws Refusal with every error in the node's files, or with the names of the nodes that the
 * capture has
 */
export function recordedNode(capture: string, node: string, family: Family | undefined): NodeState {
  const folder = nodeFolder(capture, node)
  const present = CAPTURE_FILES.filter((name) => existsSync(join(folder, name)))
  const files = new Map(present.map((name) => [name, readPlainFile(join(folder, name))]))
  return readable(`"${folder}"`, files, family)
}

function nodeFolder(capture: string, node: string): string {
  if (!isFolder(capture))
    throw new Refusal(`"${capture}" is not a folder; make a capture with: make capture`)
  if (existsSync(join(capture, 'iptables-save'))) return capture
  const nodes = join(capture, 'nodes')
  if (!isFolder(nodes))
    throw new Refusal(
      `"${capture}" is not a capture, it has neither "nodes" nor "iptables-save"; make one with: make capture`,
    )
  const names = readdirSync(nodes).filter((name) => isFolder(join(nodes, name)))
  const chosen = node || (names.length === 1 ? names[0] : undefined)
  if (chosen === undefined)
    throw new Refusal(`--node must be given; "${capture}" has: ${names.join(', ') || 'none'}`)
  if (names.includes(chosen)) return join(nodes, chosen)
  throw new Refusal(
    `"${chosen}" is not a node of "${capture}"; it has: ${names.join(', ') || 'none'}`,
  )
}
