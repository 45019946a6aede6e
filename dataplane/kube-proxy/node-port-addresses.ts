import type { KubeProxyConfig } from './config.ts'
import { canonicalAddress, cidrContains, type Family, familyOf, isZeroCidr } from './ip.ts'
import type { Features } from './versions.ts'

/** Where node ports are served: on every local address, or on the listed ones only. */
export type NodePortAddresses = { all: true } | { all: false; addresses: string[] }

/**
 * Applies nodePortAddresses to the node's addresses (pkg/proxy/util NodePortAddresses): no range of the family, or a
 * zero range, means all; else every local address within a range, loopback included.
 * @param primary the node's address, which `primary` stands for (1.31)
 */
export function nodePortAddresses(
  config: KubeProxyConfig,
  addresses: readonly string[],
  primary: string | undefined,
  family: Family,
  features: Features,
): NodePortAddresses {
  const usesPrimary = features.primaryNodePortAddress && config.nodePortAddresses.includes('primary')
  if (usesPrimary) return { all: false, addresses: primary === undefined ? [] : [canonicalAddress(primary)] }
  const ranges = config.nodePortAddresses.filter((range) => range !== 'primary' && familyOf(range) === family)
  if (ranges.length === 0 || ranges.some(isZeroCidr)) return { all: true }
  const loopback = family === 'ipv4' ? '127.0.0.1' : '::1'
  const candidates = new Set([loopback, ...addresses.map(canonicalAddress)])
  const matching = [...candidates].filter((address) => ranges.some((range) => cidrContains(range, address)))
  return { all: false, addresses: matching }
}

/** Up to 1.25 rules of node ports are left out when no local address matches; later they stand, and nothing leads there. */
export const servesNodePorts = (addresses: NodePortAddresses, features: Features): boolean =>
  features.localhostNodePorts || addresses.all || addresses.addresses.length > 0
