import type { Link } from '../../ip-addr.ts'
import { familyOf } from '../../ip-address.ts'

/** The dummy interface that makes every Service address one of the node's own. */
export const DUMMY_LINK = 'kube-ipvs0'

/** kube-ipvs0 with its addresses: never brought up, and it answers no ARP. */
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
