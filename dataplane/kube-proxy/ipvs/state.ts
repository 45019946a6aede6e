import { idOf } from '../../entry-id.ts'
import type { Link } from '../../ip-addr.ts'
import {
  asHost,
  canonicalAddress,
  contains,
  familyOf,
  isIPv6LinkLocal,
  isLoopbackAddress,
  printEndpoint,
} from '../../ip-address.ts'
import { type IpvsProtocol, type VirtualServer, virtualServerKey } from '../../ipvsadm-save.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import { DUMMY_LINK } from '../mode-ownership.ts'
import { nodePortAddresses } from '../node-addresses.ts'
import {
  type OriginRecorder,
  type Origins,
  type OutsideAddress,
  outsideAddresses,
  PolicyOrigins,
  type PortOrigins,
  rangeOrigins,
  WHOLE_PORT,
} from '../origins.ts'
import type { ProxierInput } from '../proxier.ts'
import { categorizeEndpoints, readyEndpoints, type ServicePort } from '../service-ports.ts'
import { SetBuilder, type SetName } from './sets.ts'

/** The state of ipvs mode in one family besides iptables rules. */
export class IpvsState {
  readonly sets: SetBuilder
  /** Addresses to bind to kube-ipvs0. */
  readonly bound = new Set<string>()
  /** Load balancer addresses that the node itself may not reach, by their source ranges (1.29). */
  readonly blocked: (PortOrigins & { address: string })[] = []
  readonly #servers = new Map<string, VirtualServer>()
  readonly #proxier: ProxierInput
  readonly #origins: OriginRecorder | undefined
  /** Addresses that other interfaces have. */
  readonly #taken: ReadonlySet<string>

  constructor(proxier: ProxierInput, origins?: OriginRecorder) {
    this.#proxier = proxier
    this.#origins = origins
    this.sets = new SetBuilder(proxier.family, proxier.features, origins)
    this.#taken = new Set(proxier.nodeAddresses.map(canonicalAddress))
  }

  get virtualServers(): VirtualServer[] {
    return [...this.#servers.values()]
  }

  writeAddresses(port: ServicePort): void {
    const { internal, external } = backends(port, this.#proxier)
    const memberOf = (address: string) => `${address},${port.protocol}:${port.port}`
    // Hairpin: a local endpoint that reaches itself through its Service, ready or not.
    for (const endpoint of port.endpoints) {
      if (!endpoint.isLocal) continue
      const member = `${endpoint.ip},${port.protocol}:${endpoint.port},${endpoint.ip}`
      this.sets.add('KUBE-LOOP-BACK', member, [endpoint], WHOLE_PORT)
    }

    this.sets.add('KUBE-CLUSTER-IP', memberOf(port.clusterIP), WHOLE_PORT)
    this.#serve(port, port.clusterIP, port.port, internal, WHOLE_PORT)
    this.#bind(port.clusterIP, WHOLE_PORT)

    const outside = outsideAddresses(port)
    for (const { address, origin } of outside)
      if (origin.list === 'loadBalancerIPs')
        this.#writeLoadBalancerIP(port, { address, origin }, memberOf(address))
      else {
        const set = port.externalLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP'
        this.sets.add(set, memberOf(address), [origin, 'externalLocal'])
      }
    for (const { address, origin } of outside) {
      this.#serve(port, address, port.port, external, [origin])
      if (!(this.#proxier.features.ipvsSkipsNodeAddresses && this.#taken.has(address)))
        this.#bind(address, [origin])
    }
  }

  /** Adds an address of kube-ipvs0, of which newer versions also have a set. */
  #bind(address: string, from: Origins): void {
    this.bound.add(address)
    this.#origins?.record(idOf.address(DUMMY_LINK, asHost(address)), from)
    if (this.#proxier.features.ipvsFilter) this.sets.add('KUBE-IPVS-IPS', address, from)
  }

  #writeLoadBalancerIP(
    port: ServicePort,
    { address, origin }: OutsideAddress,
    member: string,
  ): void {
    const { externalLocal, sourceRanges } = port
    this.sets.add('KUBE-LOAD-BALANCER', member, [origin])
    if (externalLocal) this.sets.add('KUBE-LOAD-BALANCER-LOCAL', member, [origin, 'externalLocal'])
    if (sourceRanges.length === 0) return
    this.sets.add('KUBE-LOAD-BALANCER-FW', member, [origin, 'sourceRanges'])
    for (const range of rangeOrigins(sourceRanges))
      this.sets.addRange('KUBE-LOAD-BALANCER-SOURCE-CIDR', member, range.value, [origin, range])
    const ofNode = sourceRanges.filter((range) => contains(range, this.#proxier.nodeIP))
    if (ofNode.length > 0)
      this.sets.add('KUBE-LOAD-BALANCER-SOURCE-IP', `${member},${address}`, [
        origin,
        ...rangeOrigins(ofNode),
      ])
    else this.blocked.push({ address, port, from: [origin, 'sourceRanges'] })
  }

  /** Writes node ports and health check ports; called when the bound addresses are known. */
  writePortsOfNode(port: ServicePort, addresses: readonly string[]): void {
    // If there is no address for node ports, kube-proxy skips the rest of the Service, including
    // its health check port.
    if (port.nodePort !== 0 && addresses.length === 0) return
    if (port.nodePort !== 0) this.#writeNodePort(port, addresses)
    if (port.healthCheckNodePort !== 0 && this.#proxier.features.ipvsHealthCheck)
      this.sets.add('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort), [
        'healthCheckNodePort',
      ])
  }

  #writeNodePort(port: ServicePort, addresses: readonly string[]): void {
    const { protocol, nodePort } = port
    const addTo = (name: SetName, sctp: SetName, from: Origins) => {
      if (protocol !== 'sctp') this.sets.add(name, String(nodePort), from)
      else for (const address of addresses) this.sets.add(sctp, `${address},sctp:${nodePort}`, from)
    }
    const suffix = protocol === 'udp' ? 'UDP' : 'TCP'
    addTo(`KUBE-NODE-PORT-${suffix}`, 'KUBE-NODE-PORT-SCTP-HASH', ['nodePort'])
    if (port.externalLocal)
      addTo(`KUBE-NODE-PORT-LOCAL-${suffix}`, 'KUBE-NODE-PORT-LOCAL-SCTP-HASH', [
        'nodePort',
        'externalLocal',
      ])
    const { external } = backends(port, this.#proxier)
    for (const address of addresses) this.#serve(port, address, nodePort, external, ['nodePort'])
  }

  /**
   * Adds a virtual server as kube-proxy creates it: real servers with masquerading and weight 1.
   * Two Service ports may have the same one (a duplicate external IP); the later one wins, as on a
   * node.
   * @param from what the address and port come from
   */
  #serve(
    port: ServicePort,
    address: string,
    number: number,
    { endpoints, from: ofPolicy }: ChosenServers,
    from: Origins,
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
    const key = virtualServerKey(server)
    this.#servers.set(key, server)
    // Affinity changes a virtual server, but is not why it exists.
    this.#origins?.record(
      idOf.virtualServer(key),
      from.length > 0 ? [...from, 'affinity'] : ['port', 'affinity'],
    )
    for (const endpoint of endpoints) {
      const id = idOf.realServer(key, printEndpoint(endpoint.ip, endpoint.port))
      this.#origins?.record(id, [...from, endpoint, 'unready', ...ofPolicy])
    }
  }
}

/**
 * Sets, virtual servers and addresses of ipvs mode in one family (pkg/proxy/ipvs syncProxyRules).
 */
export function ipvsState(proxier: ProxierInput, origins?: OriginRecorder): IpvsState {
  const state = new IpvsState(proxier, origins)
  for (const port of proxier.ports) {
    origins?.begin(port)
    state.writeAddresses(port)
  }
  const addresses = nodePortServers(proxier, state.bound)
  for (const port of proxier.ports) {
    origins?.begin(port)
    state.writePortsOfNode(port, addresses)
  }
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
 * The addresses on which node ports become virtual servers: all of the node's own, or those in the
 * ranges of nodePortAddresses; kube-proxy then also includes the addresses that it bound to
 * kube-ipvs0 in an earlier sync.
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
  // A sync reads the addresses before it binds those of new Services: they serve node ports from
  // the next sync on.
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

/** Real servers, and what they come from besides the endpoints. */
interface ChosenServers {
  endpoints: readonly TrackedEndpoint[]
  from: Origins
}

/**
 * Chooses real servers. Since 1.24 a Local policy without local endpoints falls back to all
 * endpoints (kubernetes/kubernetes#97081); before, it had none.
 */
function backends(
  port: ServicePort,
  proxier: ProxierInput,
): Record<'internal' | 'external', ChosenServers> {
  if (proxier.features.internalTrafficPolicy !== 'categorises') {
    const ready = readyEndpoints(port)
    const here = ready.filter((endpoint) => endpoint.isLocal)
    const choose = (isLocal: boolean) => ({ endpoints: isLocal ? here : ready, from: WHOLE_PORT })
    return { internal: choose(port.internalLocal), external: choose(port.externalLocal) }
  }
  const categories = categorizeEndpoints(port, proxier)
  const { local, cluster } = categories
  const origins = new PolicyOrigins(port, categories)
  // Local endpoints that terminate: with policy Cluster the ready ones would be chosen.
  const isReplaced = !local.some(({ ready }) => ready) && port.endpoints.some(({ ready }) => ready)
  const choose = (policy: 'internalLocal' | 'externalLocal', otherwise: Origins): ChosenServers =>
    port[policy] && local.length > 0
      ? { endpoints: local, from: isReplaced ? [policy] : WHOLE_PORT }
      : { endpoints: cluster, from: otherwise }
  return {
    internal: choose('internalLocal', origins.cluster),
    external: choose('externalLocal', WHOLE_PORT),
  }
}
