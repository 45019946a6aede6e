import { canonicalAddress, contains, type Family, familyOf, hostLength, isLoopback, isZeroCidr } from '../ip-address.ts'
import type { KubeProxyConfig } from './config.ts'
import type { Features } from './versions.ts'

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
 * @param nodeIP the node's address, which `primary` stands for (1.31)
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

/** Up to 1.25 rules of node ports are left out when no local address matches; later they stand, and nothing leads there. */
export const servesNodePorts = (addresses: NodePortAddresses, features: Features): boolean =>
  features.localhostNodePorts || addresses.all || addresses.addresses.length > 0
