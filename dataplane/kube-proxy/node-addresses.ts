import ipaddr from 'ipaddr.js'
import { IPVS_LINK } from '../compare/ownership.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'

/** The first address of a Pod range, which the bridge or the veth ends of a node have. */
function firstAddress(cidr: string): string {
  const network = ipaddr.parse(
    cidr.includes(':')
      ? ipaddr.IPv6.networkAddressFromCIDR(cidr).toString()
      : ipaddr.IPv4.networkAddressFromCIDR(cidr).toString(),
  )
  const bytes = network.toByteArray()
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 1
  return ipaddr.fromByteArray(bytes).toString()
}

/**
 * The addresses that a node most likely has, where nobody looked: its InternalIPs and the first address of each of its
 * Pod ranges (kind's ptp and the bridge plugin both use that one).
 */
export function defaultNodeAddresses(objects: ClusterObjects, node: string): string[] {
  const found = objects.nodes.find((candidate) => candidate.name === node)
  if (!found) return []
  return [...found.internalIPs, ...found.podCIDRs.map(firstAddress)]
}

/** Every address that a node has for itself: those on kube-ipvs0 are kube-proxy's doing. */
export const heldAddresses = ({ links }: NodeState): string[] =>
  links
    .filter(({ name }) => name !== IPVS_LINK)
    .flatMap(({ addresses }) => addresses.map(({ address }) => address))
    .filter((address) => !/^fe[89ab]/i.test(address))

/**
 * The addresses that kube-proxy of a node took for the node's own when it last looked. IPVS mode looks at every full sync only (each
 * 30 s by default) and serves node ports on all of them, so an address that a person or another program gave to a link since, or took
 * from it, has no virtual servers yet, or has them still. Addresses that the API tells of are always the node's.
 */
export function addressesAtLastSync(objects: ClusterObjects, node: string, state: NodeState): string[] {
  const ofServices = new Set(
    objects.services.flatMap(({ clusterIPs, externalIPs, loadBalancerIngress }) => [
      ...clusterIPs,
      ...externalIPs,
      ...loadBalancerIngress.flatMap(({ ip }) => ip ?? []),
    ]),
  )
  const own = objects.nodes.find(({ name }) => name === node)
  const certain = new Set([...defaultNodeAddresses(objects, node), ...(own?.externalIPs ?? []), ...ofServices])
  const nodePorts = new Set(
    objects.services.flatMap(({ ports }) => ports.map(({ protocol, nodePort }) => `${protocol} ${nodePort}`)),
  )
  const serving = state.virtualServers
    .filter(({ protocol, address, port }) => nodePorts.has(`${protocol} ${port}`) && !ofServices.has(address))
    .map(({ address }) => address)
  return [...new Set([...heldAddresses(state).filter((address) => certain.has(address)), ...serving])]
}
