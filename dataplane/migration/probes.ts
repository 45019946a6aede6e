import { contains, familyOf } from '../ip-address.ts'
import type { ProxierInput } from '../kube-proxy/proxier.ts'
import type { ServicePort } from '../kube-proxy/service-ports.ts'
import type { ClusterObjects } from '../objects.ts'
import type { Packet } from '../trace.ts'

/** Who sends: a Pod of the node, a process of the node, a machine outside, or an endpoint of the Service on this node. */
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

/** Machines outside the cluster: TEST-NET-2 (RFC 5737) and the prefix for documentation (RFC 3849). */
const OUTSIDE = { ipv4: '198.51.100.250', ipv6: '2001:db8::250' }
const LOOPBACK = { ipv4: '127.0.0.1', ipv6: '::1' }
/** TCP port 9 (discard, RFC 863), which Services rarely have. */
const UNUSED_PORT = 9

/** An address of a range that is probably no endpoint's: the last but five. */
function addressIn(range: string): string {
  const [network = ''] = range.split('/')
  return network.includes(':')
    ? `${network.replace(/::$/, '')}::fa`
    : network.replace(/\d+$/, '250')
}

/** A client whose address is within the first source range that does not contain the usual outside client. */
function allowedClient({ sourceRanges }: ServicePort): string | undefined {
  const range = sourceRanges.find(
    (one) => !contains(one, OUTSIDE[familyOf(one) === 'ipv6' ? 'ipv6' : 'ipv4']),
  )
  const [network = '', length = ''] = range?.split('/') ?? []
  if (network === '') return undefined
  return ['32', '128'].includes(length)
    ? network
    : network.replace(/\d+$/, (last) => `${+last + 1}`)
}

/** The probes of one node in one family: every client × address:port of every Service port that kube-proxy programs. */
export function migrationProbes(objects: ClusterObjects, proxier: ProxierInput): MigrationProbe[] {
  const { node, family, ports } = proxier
  const self = objects.nodes.find(({ name }) => name === node)
  const range = self?.podCIDRs.find((one) => familyOf(one) === family)
  const clients: Record<'pod' | 'node' | 'outside', Pick<Packet, 'from' | 'source'> | undefined> = {
    pod: range === undefined ? undefined : { from: 'pod', source: addressIn(range) },
    node: { from: 'host' },
    outside: { from: 'external', source: OUTSIDE[family] },
  }
  const probes: MigrationProbe[] = []
  const add = (
    client: ProbeClient,
    origin: Pick<Packet, 'from' | 'source'> | undefined,
    probe: Pick<MigrationProbe, 'target' | 'port'>,
    to: Pick<Packet, 'destination' | 'port' | 'protocol'>,
  ) => {
    if (origin) probes.push({ client, ...probe, packet: { ...origin, ...to } })
  }
  for (const port of ports) {
    const hairpin = port.endpoints.find(({ isLocal, ip }) => isLocal && isPodOf(range, ip))
    const allowed = allowedClient(port)
    for (const { target, destination, number } of targetsOf(port, proxier)) {
      const to = { destination, port: number, protocol: port.protocol }
      const isOnLoopback = target === 'node port on loopback'
      if (!isOnLoopback) add('pod', clients.pod, { target, port }, to)
      add('node', clients.node, { target, port }, to)
      if (!isOnLoopback && target !== 'node port on another address')
        add('outside', clients.outside, { target, port }, to)
      if (allowed !== undefined && target === 'load balancer')
        add('allowed', { from: 'external', source: allowed }, { target, port }, to)
      if (hairpin && !isOnLoopback)
        add('endpoint', { from: 'pod', source: hairpin.ip }, { target, port }, to)
    }
  }
  for (const { target, destination } of strangers(proxier)) {
    const to = { destination, port: UNUSED_PORT, protocol: 'tcp' as const }
    add('pod', clients.pod, { target }, to)
    add('node', clients.node, { target }, to)
  }
  return probes
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

/** An allocated ClusterIP with a port that it does not have, and an address of the Service range that is not allocated. */
function strangers({
  ports,
  serviceCIDRs,
}: ProxierInput): { target: ProbeTarget; destination: string }[] {
  const allocated = new Set(ports.map(({ clusterIP }) => clusterIP))
  const [clusterIP] = allocated
  const [range] = serviceCIDRs
  const free = range === undefined ? undefined : addressIn(range)
  return [
    ...(clusterIP === undefined
      ? []
      : [{ target: 'unused port' as const, destination: clusterIP }]),
    ...(free === undefined || allocated.has(free)
      ? []
      : [{ target: 'unallocated ClusterIP' as const, destination: free }]),
  ]
}
