import ipaddr from 'ipaddr.js'
import {
  asHost,
  canonicalAddress,
  canonicalCidr,
  contains,
  type Family,
  familyOf,
  isIPv6LinkLocal,
  isLoopbackAddress,
  isZeroCidr,
} from '../ip-address.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import type { KubeProxyConfig } from './config.ts'
import { DUMMY_LINK } from './mode-ownership.ts'
import type { Features } from './versions.ts'

/** The first address of a Pod range, which is the address of the node's bridge or veth ends. */
function firstAddress(cidr: string): string {
  const bytes = ipaddr.parse(canonicalCidr(cidr).split('/')[0] ?? '').toByteArray()
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 1
  return ipaddr.fromByteArray(bytes).toString()
}

/**
 * The probable addresses of a node, if they were not read from it: its InternalIPs and the first
 * address of each of its Pod ranges (kind's ptp and the bridge plugin both use that one).
 */
export function defaultNodeAddresses(objects: ClusterObjects, node: string): string[] {
  const found = objects.nodes.find((candidate) => candidate.name === node)
  if (!found) return []
  return [...found.internalIPs, ...found.podCIDRs.map(firstAddress)]
}

/** The node's own addresses, without those that kube-proxy bound to kube-ipvs0. */
export const linkAddresses = ({ links }: Pick<NodeState, 'links'>): string[] =>
  links
    .filter(({ name }) => name !== DUMMY_LINK)
    .flatMap(({ addresses }) => addresses.map(({ address }) => address))
    .filter((address) => !isIPv6LinkLocal(address))

/**
 * The node's own addresses as kube-proxy last read them. IPVS mode reads them only in a full sync
 * (every 30 s by default) and serves node ports on all of them, so an address that was added or
 * removed since then may have no virtual servers yet, or may still have them. Addresses in the API
 * always belong to the node.
 */
export function addressesAtLastSync(
  objects: ClusterObjects,
  node: string,
  state: NodeState,
): string[] {
  const ofServices = new Set(
    objects.services.flatMap(({ clusterIPs, externalIPs, loadBalancerIngress }) => [
      ...clusterIPs,
      ...externalIPs,
      ...loadBalancerIngress.flatMap(({ ip }) => ip ?? []),
    ]),
  )
  const own = objects.nodes.find(({ name }) => name === node)
  const certain = new Set([
    ...defaultNodeAddresses(objects, node),
    ...(own?.externalIPs ?? []),
    ...ofServices,
  ])
  const nodePorts = new Set(
    objects.services.flatMap(({ ports }) =>
      ports.map(({ protocol, nodePort }) => `${protocol} ${nodePort}`),
    ),
  )
  const serving = state.virtualServers
    .filter(
      ({ protocol, address, port }) =>
        nodePorts.has(`${protocol} ${port}`) && !ofServices.has(address),
    )
    .map(({ address }) => address)
  return [
    ...new Set([...linkAddresses(state).filter((address) => certain.has(address)), ...serving]),
  ]
}

const UNSPECIFIED: Record<Family, string> = { ipv4: '0.0.0.0', ipv6: '::' }
const LOOPBACK: Record<Family, string> = { ipv4: '127.0.0.1', ipv6: '::1' }

/**
 * The node IP that kube-proxy uses in one family, which only source ranges and `primary` need
 * (nodeIPTuple to 1.27, detectNodeIPs since): the bind address if it is set, else the Node's
 * addresses, its InternalIPs before its ExternalIPs.
 * @param known the Node's addresses in that order
 */
export function nodeIP(
  features: Features,
  config: KubeProxyConfig,
  known: readonly string[],
  family: Family,
): string {
  const bound = Object.values(UNSPECIFIED).includes(config.bindAddress)
    ? undefined
    : config.bindAddress
  const boundHere = bound !== undefined && familyOf(bound) === family ? bound : undefined
  const knownHere = known.find((address) => familyOf(address) === family)
  if (features.nodeIPs === 'both') return boundHere ?? knownHere ?? LOOPBACK[family]
  // If only one family is served, it is the family of the node's address.
  if (features.dualStack === 'gated' && !config.dualStack)
    return bound ?? knownHere ?? LOOPBACK.ipv4
  if (features.nodeIPs === 'bound') return boundHere ?? UNSPECIFIED[family]
  const first = bound ?? known[0] ?? LOOPBACK.ipv4
  return familyOf(first) === family ? first : UNSPECIFIED[family]
}

/** The addresses that serve node ports: every local address, or only the listed ones. */
type NodePortAddresses = { all: true } | { all: false; addresses: string[] }

/** True if the ranges include addresses of 127.0.0.0/8. */
export function coversLoopback(ranges: readonly string[]): boolean {
  const ipv4 = ranges.filter((range) => range !== 'primary' && familyOf(range) === 'ipv4')
  if (ipv4.length === 0) return !ranges.includes('primary')
  return ipv4.some((range) => range.startsWith('127.') || contains(range, '127.0.0.0'))
}

function rangesOf(
  config: KubeProxyConfig,
  nodeIP: string,
  family: Family,
  features: Features,
): string[] {
  const ranges = config.nodePortAddresses
  // In 1.30 only mode nftables supports `primary`, its default; a family without an address then
  // serves no node ports.
  if (features.nftables !== 'none' && ranges.length === 1 && ranges[0] === 'primary')
    return isLoopbackAddress(nodeIP) && features.primaryNodePortAddress ? [] : [asHost(nodeIP)]
  // If 1.20 serves only one family, ranges of the other family count as ranges without an address
  // of the node.
  const bothFamilies = features.dualStack === 'gated' && !config.dualStack
  return ranges.filter(
    (range) => range !== 'primary' && (bothFamilies || familyOf(range) === family),
  )
}

/**
 * Applies nodePortAddresses to the node's addresses (pkg/proxy/util NodePortAddresses): no range of
 * the family, or a zero range, means all; else every local address within a range, loopback
 * included.
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
  const candidates = new Set([LOOPBACK[family], ...addresses.map(canonicalAddress)])
  const matching = [...candidates].filter((address) =>
    ranges.some((range) => contains(range, address)),
  )
  return { all: false, addresses: matching }
}
