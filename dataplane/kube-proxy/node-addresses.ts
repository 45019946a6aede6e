import ipaddr from 'ipaddr.js'
import { IPVS_LINK } from '../compare/finding.ts'
import { canonicalAddress, contains, type Family, familyOf, hostLength, isLoopback, isZeroCidr } from '../ip-address.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import type { KubeProxyConfig } from './config.ts'
import type { Features } from './versions.ts'

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
 * The addresses that a node most likely has, where they were not read from the node: its InternalIPs and the first address of each of its
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
 * The addresses that kube-proxy of a node took for the node's own when it last read them. IPVS mode reads them at every full sync only (each
 * 30 s by default) and serves node ports on all of them, so an address that a person or another program gave to a link since, or took
 * from it, has no virtual servers yet, or has them still. Addresses in the API are always the node's.
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

const UNSPECIFIED: Record<Family, string> = { ipv4: '0.0.0.0', ipv6: '::' }
const LOOPBACK: Record<Family, string> = { ipv4: '127.0.0.1', ipv6: '::1' }

/**
 * The address that kube-proxy takes for its node's own in one family, which only source ranges and `primary` need
 * (nodeIPTuple to 1.27, detectNodeIPs since): the bind address where one is given, else the Node's addresses, its InternalIPs
 * before its ExternalIPs.
 * @param known the Node's addresses in that order
 */
export function nodeIP(features: Features, config: KubeProxyConfig, known: readonly string[], family: Family): string {
  const bound = Object.values(UNSPECIFIED).includes(config.bindAddress) ? undefined : config.bindAddress
  const boundHere = bound !== undefined && familyOf(bound) === family ? bound : undefined
  const knownHere = known.find((address) => familyOf(address) === family)
  if (features.nodeIPs === 'both') return boundHere ?? knownHere ?? LOOPBACK[family]
  // Where one family is served only, it is that of the node's address.
  if (features.dualStack === 'gated' && !config.dualStack) return bound ?? knownHere ?? LOOPBACK.ipv4
  if (features.nodeIPs === 'bound') return boundHere ?? UNSPECIFIED[family]
  const first = bound ?? known[0] ?? LOOPBACK.ipv4
  return familyOf(first) === family ? first : UNSPECIFIED[family]
}

/** Where node ports are served: on every local address, or on the listed ones only. */
export type NodePortAddresses = { all: true } | { all: false; addresses: string[] }

/** True when node ports are wanted on addresses of 127.0.0.0/8. */
export function coversLoopback(ranges: readonly string[]): boolean {
  const ipv4 = ranges.filter((range) => range !== 'primary' && familyOf(range) === 'ipv4')
  if (ipv4.length === 0) return !ranges.includes('primary')
  return ipv4.some((range) => range.startsWith('127.') || contains(range, '127.0.0.0'))
}

/** The ranges that count in one family. */
function rangesOf(config: KubeProxyConfig, nodeIP: string, family: Family, features: Features): string[] {
  const ranges = config.nodePortAddresses
  // In 1.30 only mode nftables knows `primary`, its default; a family without an address then serves no node ports.
  if (features.nftables !== 'none' && ranges.length === 1 && ranges[0] === 'primary')
    return isLoopback(nodeIP) && features.primaryNodePortAddress ? [] : [`${nodeIP}${hostLength(family)}`]
  // While it serves one family only, 1.20 takes ranges of the other for ranges in which the node has no address.
  const asGiven = features.dualStack === 'gated' && !config.dualStack
  return ranges.filter((range) => range !== 'primary' && (asGiven || familyOf(range) === family))
}

/**
 * Applies nodePortAddresses to the node's addresses (pkg/proxy/util NodePortAddresses): no range of the family, or a
 * zero range, means all; else every local address within a range, loopback included.
 * @param nodeIP the node's address, which `primary` means (1.31)
 */
export function nodePortAddresses(
  config: KubeProxyConfig,
  addresses: readonly string[],
  nodeIP: string,
  family: Family,
  features: Features,
): NodePortAddresses {
  const ranges = rangesOf(config, nodeIP, family, features)
  if (ranges.length === 0 || ranges.some(isZeroCidr)) return { all: true }
  const loopback = family === 'ipv4' ? '127.0.0.1' : '::1'
  const candidates = new Set([loopback, ...addresses.map(canonicalAddress)])
  const matching = [...candidates].filter((address) => ranges.some((range) => contains(range, address)))
  return { all: false, addresses: matching }
}

/** Up to 1.25 rules of node ports are left out when no local address matches; later they are written, and nothing leads there. */
export const servesNodePorts = (addresses: NodePortAddresses, features: Features): boolean =>
  features.localhostNodePorts || addresses.all || addresses.addresses.length > 0
