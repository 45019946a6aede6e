/**
 * The name of the machine outside the cluster, wherever a node may be named: a client that reaches the nodes and the addresses
 * of load balancers, and no ClusterIP. It stands where the load balancer stands: on the embedded cluster's bridge, or in the
 * container in front of kind's nodes. It has two addresses, so that it can be two clients.
 */
export const OUTSIDE = 'outside'

/** A cluster of somebody else's has no machine of ours outside. */
export const hasOutside = ({ driver }: { driver: string }): boolean => driver !== 'context'

/** What the clients outside are called by address, in the order in which `ip` lists them. */
export interface OutsideAddresses {
  /** The one that packets leave with unless another is asked for. */
  own: string
  /** The second one; `curl --interface` asks for it. */
  other: string | undefined
}

/** Shell text whose output `readOutsideAddresses` reads. */
export const printOutsideAddresses = 'ip -o -4 addr show scope global'

/** Reads the addresses of the interface that has the first of them. Throws Error when there is none. */
export function readOutsideAddresses(printed: string): OutsideAddresses {
  const lines = [...printed.matchAll(/^\d+: (\S+)\s+inet (\d+\.\d+\.\d+\.\d+)/gm)].map(([, device, address]) => {
    return { device, address: address ?? '' }
  })
  // A load balancer's own addresses stand on lo.
  const [first, ...others] = lines.filter(({ device }) => device !== 'lo')
  if (!first) throw new Error('the machine outside has no address')
  return { own: first.address, other: others.find(({ device }) => device === first.device)?.address }
}
