import type { Link } from '../ip-addr.ts'
import { familyOf } from '../ip-address.ts'
import { defaultNodeAddresses } from '../kube-proxy/node-addresses.ts'
import type { ClusterObjects } from '../objects.ts'

/** The prefix length of the networks of a node that is known from its Node object only. */
const PREFIX = { ipv4: 24, ipv6: 64 }

function linkOf(name: string, flags: string[], addresses: readonly string[]): Link {
  return {
    name,
    flags,
    operstate: 'UP',
    addresses: addresses.map((address) => {
      const family = familyOf(address) ?? 'ipv4'
      return {
        family: family === 'ipv4' ? 'inet' : 'inet6',
        address,
        prefixLength: PREFIX[family],
      }
    }),
  }
}

/**
 * The links of a node whose links were not read: loopback, an uplink with the InternalIPs of the
 * Node object, and a bridge with the first address of each of its Pod ranges, as kind and most
 * bridge plugins have them.
 */
export function imaginedLinks(objects: ClusterObjects, node: string): Link[] {
  const uplink = objects.nodes.find(({ name }) => name === node)?.internalIPs ?? []
  const bridge = defaultNodeAddresses(objects, node).filter((address) => !uplink.includes(address))
  const loopback: Link = {
    name: 'lo',
    flags: ['LOOPBACK'],
    operstate: 'UNKNOWN',
    addresses: [
      { family: 'inet', address: '127.0.0.1', prefixLength: 8 },
      { family: 'inet6', address: '::1', prefixLength: 128 },
    ],
  }
  return [loopback, linkOf('eth0', [], uplink), linkOf('cni0', [], bridge)]
}
