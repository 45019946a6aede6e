import { canonicalAddress, contains } from '../../ip-address.ts'
import type { VirtualServer } from '../../ipvsadm-save.ts'
import type { Proxier } from '../proxier.ts'
import type { ServicePort } from '../service-ports.ts'
import { SetBuilder, type SetName } from './sets.ts'
import { type Backends, backends, nodePortServers, virtualServer } from './virtual-servers.ts'

/** A load balancer address that the node itself may not reach, by its source ranges (1.29). */
export interface BlockedFromNode {
  address: string
  protocol: ServicePort['protocol']
  port: number
}

/** What ipvs mode wants in one family besides iptables rules. */
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

/** Node ports and health check ports, once it is known which addresses are bound. */
function addPortsOfNode(context: Context, port: ServicePort, addresses: readonly string[]): void {
  const { proxier, sets } = context
  if (port.nodePort !== 0) {
    // Without an address for node ports kube-proxy gives up on the Service here, its health check port included.
    if (addresses.length === 0) return
    addNodePort(context, port, addresses)
  }
  if (port.healthCheckNodePort !== 0 && proxier.features.ipvsHealthCheck)
    sets.add('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort))
}

/** Two Service ports may want one virtual server (an external IP used twice); the later one decides, as on a node. */
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
