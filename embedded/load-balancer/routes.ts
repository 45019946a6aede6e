/** Where the "outside" sends packets for one address of a load balancer. */
export interface BalancedAddress {
  address: string
  /** Addresses of the nodes that take its traffic; with none, packets are refused. */
  nodes: readonly string[]
}

/**
 * Lines for `ip -batch` that turn the routes that are there into the wanted ones. One route to several nodes spreads
 * connections over them (ECMP), as a router in front of a cluster does; unchanged addresses give no line.
 */
export function routeLines(present: readonly BalancedAddress[], wanted: readonly BalancedAddress[]): string[] {
  const key = ({ nodes }: BalancedAddress) => nodes.join(' ')
  const before = new Map(present.map((one) => [one.address, one]))
  const lines: string[] = []
  for (const one of wanted) {
    const old = before.get(one.address)
    before.delete(one.address)
    if (old && key(old) === key(one)) continue
    if (one.nodes.length === 0) lines.push(`route replace unreachable ${one.address}/32`)
    else lines.push(`route replace ${one.address}/32 ${one.nodes.map((node) => `nexthop via ${node}`).join(' ')}`)
  }
  return [...lines, ...[...before.keys()].map((address) => `route flush exact ${address}/32`)]
}
