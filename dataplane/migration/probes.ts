import { addressIn, contains, familyOf, parseRange, quietAddress } from '../ip-address.ts'
import type { ProxierInput } from '../kube-proxy/proxier.ts'
import type { ServicePort } from '../kube-proxy/service-ports.ts'
import type { ClusterObjects } from '../objects.ts'
import type { Packet } from '../trace.ts'

/**
 * Who sends: a Pod of the node, a process of the node, a machine outside, or an endpoint of the
 * Service on this node.
 */
export type ProbeClient = 'pod' | 'node' | 'outside' | 'allowed' | 'endpoint'

/** What is called: an address of a Service by its origin, or an address that no Service has. */
export type ProbeTarget =
  | 'ClusterIP'
  | 'external IP'
  | 'load balancer'
  | 'node port'
  | 'node port on another address'
  | 'node port on loopback'
  | 'unused port'
  | 'unallocated ClusterIP'

/** The first packet of a connection whose fate is compared before and after a change of mode. */
export interface MigrationProbe {
  client: ProbeClient
  target: ProbeTarget
  packet: Packet
  /** Absent for an address that no Service has. */
  port?: ServicePort
}

/**
 * Machines outside the cluster: TEST-NET-2 (RFC 5737) and the prefix for documentation (RFC 3849).
 */
const OUTSIDE = { ipv4: '198.51.100.250', ipv6: '2001:db8::250' }
const LOOPBACK = { ipv4: '127.0.0.1', ipv6: '::1' }
/** TCP port 9 (discard, RFC 863), which Services rarely have. */
const UNUSED_PORT = 9

/**
 * A client whose address is within the first source range that does not contain the usual outside
 * client.
 */
function allowedClient({ sourceRanges }: ServicePort): string | undefined {
  const range = sourceRanges.find(
    (one) => !contains(one, OUTSIDE[familyOf(one) === 'ipv6' ? 'ipv6' : 'ipv4']),
  )
  const within = parseRange(range ?? '')
  return within && addressIn(within, 1)
}

/** The sender of a probe's packet. */
type ProbeSender = Pick<Packet, 'from' | 'source'>

/** The senders of one node, for each kind of client that it has. */
type ProbeSenders = Partial<Record<ProbeClient, ProbeSender>>

const SERVICE_CLIENTS = ['pod', 'node', 'outside', 'endpoint'] as const

/** The clients that call a target, in the order of their probes. */
const TARGET_CLIENTS: Record<ProbeTarget, readonly ProbeClient[]> = {
  ClusterIP: SERVICE_CLIENTS,
  'external IP': SERVICE_CLIENTS,
  'load balancer': ['pod', 'node', 'outside', 'allowed', 'endpoint'],
  'node port': SERVICE_CLIENTS,
  'node port on another address': ['pod', 'node', 'endpoint'],
  'node port on loopback': ['node'],
  'unused port': ['pod', 'node'],
  'unallocated ClusterIP': ['pod', 'node'],
}

/**
 * The probes of one node in one family: every client × address:port of every Service port that
 * kube-proxy programs.
 */
export function migrationProbes(objects: ClusterObjects, proxier: ProxierInput): MigrationProbe[] {
  const { node, family, ports } = proxier
  const self = objects.nodes.find(({ name }) => name === node)
  const range = self?.podCIDRs.find((one) => familyOf(one) === family)
  const pod = quietAddress(range ?? '')
  const ofNode: ProbeSenders = {
    ...(pod !== undefined && { pod: { from: 'pod', source: pod } }),
    node: { from: 'host' },
    outside: { from: 'external', source: OUTSIDE[family] },
  }
  const probes: MigrationProbe[] = []
  const add = (
    senders: ProbeSenders,
    probe: Pick<MigrationProbe, 'target' | 'port'>,
    to: Pick<Packet, 'destination' | 'port' | 'protocol'>,
  ) => {
    for (const client of TARGET_CLIENTS[probe.target]) {
      const sender = senders[client]
      if (sender) probes.push({ client, ...probe, packet: { ...sender, ...to } })
    }
  }
  for (const port of ports) {
    const senders = { ...ofNode, ...sendersOfPort(port, range) }
    for (const { target, destination, number } of targetsOf(port, proxier))
      add(senders, { target, port }, { destination, port: number, protocol: port.protocol })
  }
  for (const { target, destination } of strangers(proxier))
    add(ofNode, { target }, { destination, port: UNUSED_PORT, protocol: 'tcp' })
  return probes
}

/** The senders of one Service port: a client in its source ranges, and its endpoint here. */
function sendersOfPort(port: ServicePort, podRange: string | undefined): ProbeSenders {
  const allowed = allowedClient(port)
  const hairpin = port.endpoints.find(({ isLocal, ip }) => isLocal && isPodOf(podRange, ip))
  return {
    ...(allowed !== undefined && { allowed: { from: 'external', source: allowed } }),
    ...(hairpin && { endpoint: { from: 'pod', source: hairpin.ip } }),
  }
}

const isPodOf = (range: string | undefined, address: string) =>
  range !== undefined && contains(range, address)

function targetsOf(
  port: ServicePort,
  { family, nodeIP, nodeAddresses }: ProxierInput,
): { target: ProbeTarget; destination: string; number: number }[] {
  const at = (target: ProbeTarget, addresses: readonly string[], number = port.port) =>
    addresses.map((destination) => ({ target, destination, number }))
  const ofNode =
    port.nodePort === 0
      ? []
      : [
          ...nodeAddresses.flatMap((address) =>
            at(
              address === nodeIP ? 'node port' : 'node port on another address',
              [address],
              port.nodePort,
            ),
          ),
          ...at('node port on loopback', [LOOPBACK[family]], port.nodePort),
        ]
  return [
    ...at('ClusterIP', [port.clusterIP]),
    ...at('external IP', port.externalIPs),
    ...at('load balancer', port.loadBalancerIPs),
    ...ofNode,
  ]
}

/**
 * An allocated ClusterIP with a port that it does not have, and an address of the Service range
 * that is not allocated.
 */
function strangers({
  ports,
  serviceCIDRs,
}: ProxierInput): { target: ProbeTarget; destination: string }[] {
  const allocated = new Set(ports.map(({ clusterIP }) => clusterIP))
  const [clusterIP] = allocated
  const free = quietAddress(serviceCIDRs[0] ?? '')
  return [
    ...(clusterIP === undefined
      ? []
      : [{ target: 'unused port' as const, destination: clusterIP }]),
    ...(free === undefined || allocated.has(free)
      ? []
      : [{ target: 'unallocated ClusterIP' as const, destination: free }]),
  ]
}
