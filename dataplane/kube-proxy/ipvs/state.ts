import type { Link } from '../../ip-addr.ts'
import { canonicalAddress, contains, familyOf, isIPv6LinkLocal, isLoopback } from '../../ip-address.ts'
import type { IpvsProtocol, VirtualServer } from '../../ipvsadm-save.ts'
import { categorizeEndpoints, type EndpointCategories, readyEndpoints } from '../endpoint-categories.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import { DUMMY_LINK } from '../mode-ownership.ts'
import { nodePortAddresses } from '../node-addresses.ts'
import type { Proxier } from '../proxier.ts'
import type { ServicePort } from '../service-ports.ts'
import { SetBuilder, type SetName } from './sets.ts'

/** A load balancer address that the node itself may not reach, by its source ranges (1.29). */
export interface BlockedFromNode {
  address: string
  protocol: ServicePort['protocol']
  port: number
}

/** The state of ipvs mode in one family besides iptables rules. */
export interface IpvsState {
  sets: SetBuilder
  virtualServers: VirtualServer[]
  /** Addresses to bind to kube-ipvs0. */
  bound: Set<string>
  blocked: BlockedFromNode[]
}

interface Context extends IpvsState {
  proxier: Proxier
  /** Addresses that other interfaces have. */
  taken: Set<string>
}

function bind({ proxier, bound, taken }: Context, address: string): void {
  if (proxier.features.ipvsSkipsNodeAddresses && taken.has(address)) return
  bound.add(address)
}

function addLoadBalancerIP(context: Context, port: ServicePort, address: string, { external }: Backends): void {
  const { proxier, sets, virtualServers, blocked } = context
  const member = `${address},${port.protocol}:${port.port}`
  sets.add('KUBE-LOAD-BALANCER', member)
  if (port.externalLocal) sets.add('KUBE-LOAD-BALANCER-LOCAL', member)
  if (port.sourceRanges.length > 0) {
    sets.add('KUBE-LOAD-BALANCER-FW', member)
    for (const range of port.sourceRanges) sets.addRange('KUBE-LOAD-BALANCER-SOURCE-CIDR', member, range)
    const { nodeIP } = proxier
    if (port.sourceRanges.some((range) => contains(range, nodeIP)))
      sets.add('KUBE-LOAD-BALANCER-SOURCE-IP', `${member},${address}`)
    else blocked.push({ address, protocol: port.protocol, port: port.port })
  }
  virtualServers.push(virtualServer(proxier, port, address, port.port, external))
  bind(context, address)
}

function addNodePort(context: Context, port: ServicePort, addresses: readonly string[]): void {
  const { proxier, sets, virtualServers } = context
  const addTo = (name: SetName, sctp: SetName) => {
    if (port.protocol !== 'sctp') sets.add(name, String(port.nodePort))
    else for (const address of addresses) sets.add(sctp, `${address},sctp:${port.nodePort}`)
  }
  const protocol = port.protocol === 'udp' ? 'UDP' : 'TCP'
  addTo(`KUBE-NODE-PORT-${protocol}`, 'KUBE-NODE-PORT-SCTP-HASH')
  if (port.externalLocal) addTo(`KUBE-NODE-PORT-LOCAL-${protocol}`, 'KUBE-NODE-PORT-LOCAL-SCTP-HASH')
  const { external } = backends(port, proxier)
  for (const address of addresses) virtualServers.push(virtualServer(proxier, port, address, port.nodePort, external))
}

function addServicePort(context: Context, port: ServicePort): void {
  const { proxier, sets, virtualServers, bound } = context
  const chosen = backends(port, proxier)
  // Hairpin: a local endpoint that reaches itself through its Service, ready or not.
  for (const endpoint of port.endpoints)
    if (endpoint.isLocal) sets.add('KUBE-LOOP-BACK', `${endpoint.ip},${port.protocol}:${endpoint.port},${endpoint.ip}`)

  sets.add('KUBE-CLUSTER-IP', `${port.clusterIP},${port.protocol}:${port.port}`)
  virtualServers.push(virtualServer(proxier, port, port.clusterIP, port.port, chosen.internal))
  bound.add(port.clusterIP)

  for (const address of port.externalIPs) {
    sets.add(
      port.externalLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP',
      `${address},${port.protocol}:${port.port}`,
    )
    virtualServers.push(virtualServer(proxier, port, address, port.port, chosen.external))
    bind(context, address)
  }
  for (const address of port.loadBalancerIPs) addLoadBalancerIP(context, port, address, chosen)
}

/** Adds node ports and health check ports; called when the bound addresses are known. */
function addPortsOfNode(context: Context, port: ServicePort, addresses: readonly string[]): void {
  const { proxier, sets } = context
  if (port.nodePort !== 0) {
    // If there is no address for node ports, kube-proxy skips the rest of the Service, including its health
    // check port.
    if (addresses.length === 0) return
    addNodePort(context, port, addresses)
  }
  if (port.healthCheckNodePort !== 0 && proxier.features.ipvsHealthCheck)
    sets.add('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort))
}

/**
 * Two Service ports may have the same virtual server (a duplicate external IP); the later one wins, as on a
 * node.
 */
function withoutDuplicates(servers: readonly VirtualServer[]): VirtualServer[] {
  const byKey = new Map<string, VirtualServer>()
  for (const server of servers) byKey.set(`${server.protocol} ${server.address} ${server.port}`, server)
  return byKey.size === servers.length ? [...servers] : [...byKey.values()]
}

/** Sets, virtual servers and addresses of ipvs mode in one family (pkg/proxy/ipvs syncProxyRules). */
export function ipvsState(proxier: Proxier): IpvsState {
  const context: Context = {
    proxier,
    sets: new SetBuilder(proxier.family, proxier.features),
    virtualServers: [],
    bound: new Set(),
    blocked: [],
    taken: new Set(proxier.nodeAddresses.map(canonicalAddress)),
  }
  for (const port of proxier.ports) addServicePort(context, port)
  const addresses = nodePortServers(proxier, context.bound)
  for (const port of proxier.ports) addPortsOfNode(context, port, addresses)
  if (proxier.features.ipvsFilter) for (const address of context.bound) context.sets.add('KUBE-IPVS-IPS', address)
  const { sets, bound, blocked } = context
  return { sets, virtualServers: withoutDuplicates(context.virtualServers), bound, blocked }
}

/** kube-ipvs0 with its addresses: always down, without ARP. */
export const dummyLink = (addresses: Iterable<string>): Link => ({
  name: DUMMY_LINK,
  kind: 'dummy',
  flags: ['BROADCAST', 'NOARP'],
  operstate: 'DOWN',
  addresses: [...addresses].map((address) =>
    familyOf(address) === 'ipv4'
      ? { family: 'inet', address, prefixLength: 32 }
      : { family: 'inet6', address, prefixLength: 128 },
  ),
})

/**
 * The addresses on which node ports become virtual servers: all of the node's own, or those in the ranges of
 * nodePortAddresses; kube-proxy then also includes the addresses that it bound to kube-ipvs0.
 */
function nodePortServers(proxier: Proxier, bound: ReadonlySet<string>): string[] {
  const { config, features, family, nodeIP, nodeAddresses } = proxier
  if (proxier.nodePortAddresses.all) {
    const addresses = nodeAddresses.map(canonicalAddress).filter((address) => !isIPv6LinkLocal(address))
    if (features.ipvsLoopbackNodePorts) addresses.push(family === 'ipv4' ? '127.0.0.1' : '::1')
    return [...new Set(addresses)]
  }
  const matching = nodePortAddresses(config, [...nodeAddresses, ...bound], nodeIP, family, features)
  if (matching.all) return []
  return matching.addresses.filter((address) => features.ipvsLoopbackNodePorts || !isLoopback(address))
}

/** The endpoints behind each kind of address of one Service port. */
export interface Backends {
  internal: readonly TrackedEndpoint[]
  external: readonly TrackedEndpoint[]
}

/**
 * Chooses real servers. Since 1.24 a Local policy without local endpoints falls back to all endpoints
 * (kubernetes/kubernetes#97081); before, it had none.
 */
function backends(port: ServicePort, proxier: Proxier): Backends {
  const { features } = proxier
  if (features.internalTrafficPolicy !== 'categorises') {
    const ready = readyEndpoints(port)
    const here = ready.filter((endpoint) => endpoint.isLocal)
    return { internal: port.internalLocal ? here : ready, external: port.externalLocal ? here : ready }
  }
  const categories: EndpointCategories = categorizeEndpoints(port, proxier)
  const choose = (isLocal: boolean) => (isLocal && categories.local.length > 0 ? categories.local : categories.cluster)
  return { internal: choose(port.internalLocal), external: choose(port.externalLocal) }
}

/** A virtual server as kube-proxy creates it: real servers with masquerading and weight 1. */
function virtualServer(
  proxier: Proxier,
  port: ServicePort,
  address: string,
  number: number,
  endpoints: readonly TrackedEndpoint[],
): VirtualServer {
  const { scheduler } = proxier.config.ipvs
  const server: VirtualServer = {
    protocol: port.protocol.toUpperCase() as IpvsProtocol,
    address,
    port: number,
    scheduler,
    flags: proxier.features.ipvsMaglevPort && scheduler === 'mh' ? ['mh-port'] : [],
    realServers: endpoints.map((endpoint) => ({
      address: endpoint.ip,
      port: endpoint.port,
      forward: 'masq',
      weight: 1,
    })),
  }
  if (port.affinity !== undefined) server.persistent = port.affinity
  return server
}
