import { createHash } from 'node:crypto'
import { secondClientOf } from '../../host/address-pool.ts'

/** A node of the cluster's network: its name, its address on the bridge, and the addresses of its Pods. */
export interface NodePlan {
  name: string
  address: string
  podCIDR: string
}

/** The bridge that kind gives its Docker network, and the address "outside" the cluster. */
export const bridge = { name: 'kind', address: '172.18.0.1', prefix: 16 } as const

/** The second client "outside": an address behind those that load balancers get. */
const otherClient = secondClientOf(`${bridge.address}/${bridge.prefix}`)

/** What "outside" is set to: its addresses, and that a route to several nodes spreads connections, not clients (the hash takes ports too). */
export const outside = {
  lines: otherClient === undefined ? [] : [`address add ${otherClient}/32 dev ${bridge.name}`],
  script: 'echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy || exit 1',
}

/** All Pods of all nodes. */
export const clusterCIDR = '10.244.0.0/16'

/** The address a node uses towards its Pods: the first of its Pod range (`10.244.1.0/24` → `10.244.1.1`). */
export function podGateway(podCIDR: string): string {
  const base = podCIDR.split('/')[0] ?? ''
  return `${base.slice(0, base.lastIndexOf('.'))}.1`
}

/** Name of a host-side interface: a prefix and eight hexadecimal digits that only depend on `seed`, as CNI's plugins make them. */
export function interfaceName(prefix: string, seed: string): string {
  return prefix + createHash('sha1').update(seed).digest('hex').slice(0, 8)
}
