import type { Link } from '../../ip-addr.ts'
import {
  canonicalAddress,
  contains,
  familyOf,
  isIPv6LinkLocal,
  isLoopbackAddress,
} from '../../ip-address.ts'
import { type IpvsProtocol, type VirtualServer, virtualServerKey } from '../../ipvsadm-save.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import { DUMMY_LINK } from '../mode-ownership.ts'
import { nodePortAddresses } from '../node-addresses.ts'
import type { ProxierInput } from '../proxier.ts'
import { categorizeEndpoints, readyEndpoints, type ServicePort } from '../service-ports.ts'
import { SetBuilder, type SetName } from './sets.ts'

/** The state of ipvs mode in one family besides iptables rules. */
export class IpvsState {
  readonly sets: SetBuilder
  /** Addresses to bind to kube-ipvs0. */
  readonly bound = new Set<string>()
  /** Load balancer addresses that the node itself may not reach, by their source ranges (1.29). */
  readonly blocked: (Pick<ServicePort, 'protocol' | 'port'> & { address: string })[] = []
  readonly #servers = new Map<string, VirtualServer>()
  readonly #proxier: ProxierInput
  /** Addresses that other interfaces have. */
  readonly #taken: ReadonlySet<string>

  constructor(proxier: ProxierInput) {
    this.#proxier = proxier
    this.sets = new SetBuilder(proxier.family, proxier.features)
    this.#taken = new Set(proxier.nodeAddresses.map(canonicalAddress))
  }

  get virtualServers(): VirtualServer[] {
    return [...this.#servers.values()]
  }

  writeAddresses(port: ServicePort): void {
    const { internal, external } = backends(port, this.#proxier)
    const memberOf = (address: string) => `${address},${port.protocol}:${port.port}`
    // Hairpin: a local endpoint that reaches itself through its Service, ready or not.
    for (const { isLocal, ip, port: number } of port.endpoints)
      if (isLocal) this.sets.add('KUBE-LOOP-BACK', `${ip},${port.protocol}:${number},${ip}`)

    this.sets.add('KUBE-CLUSTER-IP', memberOf(port.clusterIP))
    this.#serve(port, port.clusterIP, port.port, internal)
    this.bound.add(port.clusterIP)

    for (const address of port.externalIPs)
      this.sets.add(
        port.externalLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP',
        memberOf(address),
      )
    for (const address of port.loadBalancerIPs)
      this.#writeLoadBalancerIP(port, address, memberOf(address))
    for (const address of [...port.externalIPs, ...port.loadBalancerIPs]) {
      this.#serve(port, address, port.port, external)
      if (!(this.#proxier.features.ipvsSkipsNodeAddresses && this.#taken.has(address)))
        this.bound.add(address)
    }
  }

  #writeLoadBalancerIP(
    { externalLocal, sourceRanges, protocol, port }: ServicePort,
    address: string,
    member: string,
  ) {
    this.sets.add('KUBE-LOAD-BALANCER', member)
    if (externalLocal) this.sets.add('KUBE-LOAD-BALANCER-LOCAL', member)
    if (sourceRanges.length === 0) return
    this.sets.add('KUBE-LOAD-BALANCER-FW', member)
    for (const range of sourceRanges)
      this.sets.addRange('KUBE-LOAD-BALANCER-SOURCE-CIDR', member, range)
    if (sourceRanges.some((range) => contains(range, this.#proxier.nodeIP)))
      this.sets.add('KUBE-LOAD-BALANCER-SOURCE-IP', `${member},${address}`)
    else this.blocked.push({ address, protocol, port })
  }

  /** Writes node ports and health check ports; called when the bound addresses are known. */
  writePortsOfNode(port: ServicePort, addresses: readonly string[]): void {
    // If there is no address for node ports, kube-proxy skips the rest of the Service, including its health
    // check port.
    if (port.nodePort !== 0 && addresses.length === 0) return
    if (port.nodePort !== 0) this.#writeNodePort(port, addresses)
    if (port.healthCheckNodePort !== 0 && this.#proxier.features.ipvsHealthCheck)
      this.sets.add('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort))
  }

  #writeNodePort(port: ServicePort, addresses: readonly string[]): void {
    const { protocol, nodePort } = port
    const addTo = (name: SetName, sctp: SetName) => {
      if (protocol !== 'sctp') this.sets.add(name, String(nodePort))
      else for (const address of addresses) this.sets.add(sctp, `${address},sctp:${nodePort}`)
    }
    const suffix = protocol === 'udp' ? 'UDP' : 'TCP'
    addTo(`KUBE-NODE-PORT-${suffix}`, 'KUBE-NODE-PORT-SCTP-HASH')
    if (port.externalLocal)
      addTo(`KUBE-NODE-PORT-LOCAL-${suffix}`, 'KUBE-NODE-PORT-LOCAL-SCTP-HASH')
    const { external } = backends(port, this.#proxier)
    for (const address of addresses) this.#serve(port, address, nodePort, external)
  }

  /**
   * Adds a virtual server as kube-proxy creates it: real servers with masquerading and weight 1. Two Service ports may have
   * the same one (a duplicate external IP); the later one wins, as on a node.
   */
  #serve(
    port: ServicePort,
    address: string,
    number: number,
    endpoints: readonly TrackedEndpoint[],
  ): void {
    const { config, features } = this.#proxier
    const { scheduler } = config.ipvs
    const server: VirtualServer = {
      protocol: port.protocol.toUpperCase() as IpvsProtocol,
      address,
      port: number,
      scheduler,
      flags: features.ipvsMaglevPort && scheduler === 'mh' ? ['mh-port'] : [],
      realServers: endpoints.map((endpoint) => ({
        address: endpoint.ip,
        port: endpoint.port,
        forward: 'masq',
        weight: 1,
      })),
      ...(port.affinity === undefined ? {} : { persistent: port.affinity }),
    }
    this.#servers.set(virtualServerKey(server), server)
  }
}

/** Sets, virtual servers and addresses of ipvs mode in one family (pkg/proxy/ipvs syncProxyRules). */
export function ipvsState(proxier: ProxierInput): IpvsState {
  const state = new IpvsState(proxier)
  for (const port of proxier.ports) state.writeAddresses(port)
  const addresses = nodePortServers(proxier, state.bound)
  for (const port of proxier.ports) state.writePortsOfNode(port, addresses)
  if (proxier.features.ipvsFilter)
    for (const address of state.bound) state.sets.add('KUBE-IPVS-IPS', address)
  return state
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
 * nodePortAddresses; kube-proxy then also includes the addresses that it bound to kube-ipvs0 in an earlier sync.
 */
function nodePortServers(proxier: ProxierInput, bound: ReadonlySet<string>): string[] {
  const { config, features, family, nodeIP, nodeAddresses } = proxier
  if (proxier.nodePortAddresses.all) {
    const addresses = nodeAddresses
      .map(canonicalAddress)
      .filter((address) => !isIPv6LinkLocal(address))
    if (features.ipvsLoopbackNodePorts) addresses.push(family === 'ipv4' ? '127.0.0.1' : '::1')
    return [...new Set(addresses)]
  }
  // A sync reads the addresses before it binds those of new Services: they serve node ports from the next sync on.
  const boundBefore = features.ipvsHourlyResync && !config.resynced ? [] : bound
  const matching = nodePortAddresses(
    config,
    [...nodeAddresses, ...boundBefore],
    nodeIP,
    family,
    features,
  )
  if (matching.all) return []
  return matching.addresses.filter(
    (address) => features.ipvsLoopbackNodePorts || !isLoopbackAddress(address),
  )
}

/**
 * Chooses real servers. Since 1.24 a Local policy without local endpoints falls back to all endpoints
 * (kubernetes/kubernetes#97081); before, it had none.
 */
function backends(
  port: ServicePort,
  proxier: ProxierInput,
): Record<'internal' | 'external', readonly TrackedEndpoint[]> {
  if (proxier.features.internalTrafficPolicy !== 'categorises') {
    const ready = readyEndpoints(port)
    const here = ready.filter((endpoint) => endpoint.isLocal)
    return {
      internal: port.internalLocal ? here : ready,
      external: port.externalLocal ? here : ready,
    }
  }
  const { local, cluster } = categorizeEndpoints(port, proxier)
  const choose = (isLocal: boolean) => (isLocal && local.length > 0 ? local : cluster)
  return { internal: choose(port.internalLocal), external: choose(port.externalLocal) }
}
