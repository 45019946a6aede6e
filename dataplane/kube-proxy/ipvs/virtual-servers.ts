import { canonicalAddress, isIPv6LinkLocal, isLoopback } from '../../ip-address.ts'
import type { IpvsProtocol, VirtualServer } from '../../ipvsadm-save.ts'
import { categorizeEndpoints, type EndpointCategories, readyEndpoints } from '../endpoint-categories.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import { nodePortAddresses } from '../node-port-addresses.ts'
import type { Proxier } from '../proxier.ts'
import type { ServicePort } from '../service-ports.ts'

/**
 * The addresses on which node ports become virtual servers: all of the node's own, or those in the ranges of
 * nodePortAddresses, among which kube-proxy then also finds what it has bound to kube-ipvs0 itself.
 */
export function nodePortServers(proxier: Proxier, bound: ReadonlySet<string>): string[] {
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
 * Chooses real servers. From 1.24 on a Local policy that finds no endpoint here takes all of them
 * (kubernetes/kubernetes#97081); before, there is then none.
 */
export function backends(port: ServicePort, proxier: Proxier): Backends {
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

/** One virtual server as kube-proxy makes it: masquerading real servers of weight 1. */
export function virtualServer(
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
