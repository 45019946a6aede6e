/**
 * The name of the machine outside the cluster, valid wherever a node's name is: a client that
 * reaches the nodes and the addresses of load balancers, but no ClusterIP. It is the load
 * balancer's machine: on the embedded cluster's bridge, or the container in front of kind's nodes.
 * It has two addresses, so that it can be two clients.
 */
export const OUTSIDE = 'outside'

/** The addresses of the clients outside, in the order in which `ip` lists them. */
export interface OutsideAddresses {
  own: string
  /** The second address, used with `curl --interface`. */
  other: string | undefined
}

/** Shell text whose output `readOutsideAddresses` reads. */
export const printOutsideAddresses = 'ip -o -4 addr show scope global'

/** Reads the addresses of the first interface other than lo. Throws Error if there is none. */
export function readOutsideAddresses(printed: string): OutsideAddresses {
  const lines = [...printed.matchAll(/^\d+: (\S+)\s+inet (\d+\.\d+\.\d+\.\d+)/gm)].map(
    ([, device, address]) => {
      return { device, address: address ?? '' }
    },
  )
  // A load balancer's own addresses are on lo.
  const [first, ...others] = lines.filter(({ device }) => device !== 'lo')
  if (!first) throw new Error('the machine outside has no address')
  return {
    own: first.address,
    other: others.find(({ device }) => device === first.device)?.address,
  }
}
