import ipaddr from 'ipaddr.js'
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
