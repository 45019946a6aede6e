import ipaddr from 'ipaddr.js'
import { BoundedCache } from '../bounded-cache.ts'
import type { Link, LinkAddress } from '../ip-addr.ts'
import { canonicalAddress, commonBits, contains, familyOf, parsePrefix } from '../ip-address.ts'
import type { Route } from '../ip-route.ts'

export type AddressType =
  | 'LOCAL'
  | 'UNICAST'
  | 'BROADCAST'
  | 'MULTICAST'
  | 'BLACKHOLE'
  | 'UNREACHABLE'
  | 'PROHIBIT'

/** Kinds of links that are never an uplink. */
const NO_UPLINK = new Set(['bridge', 'dummy', 'ipip', 'vxlan', 'wireguard'])

/** The network of a node: its own addresses, and the links to all others. */
export class NodeNetwork {
  readonly #links: readonly Link[]
  readonly #routes: readonly Route[]
  readonly #own: ReadonlySet<string>
  /**
   * Answers of `isLocal` and `addressType`: each packet of a Service asks for the same few
   * addresses in every rule.
   */
  readonly #local = new BoundedCache<boolean>(10_000)
  readonly #types = new BoundedCache<AddressType>(10_000)

  /**
   * If there are no routes, they are derived from the links: each prefix is behind its link, all
   * other addresses behind the uplink.
   */
  constructor(links: readonly Link[], routes: readonly Route[] | undefined) {
    this.#links = links
    this.#routes = routes && routes.length > 0 ? routes : derivedRoutes(links)
    this.#own = new Set(
      links.flatMap((link) => link.addresses.map(({ address }) => canonicalAddress(address))),
    )
  }

  /**
   * Whether the address is local for the kernel: on any link, up or down (kube-ipvs0 is down), or
   * in a prefix of the loopback link (127.0.0.0/8).
   */
  isLocal(address: string): boolean {
    return this.#local.getOrCreate(address, (text) => this.#holds(text))
  }

  #holds(address: string): boolean {
    const isWithin = (own: LinkAddress) => contains(`${own.address}/${own.prefixLength}`, address)
    return (
      this.#own.has(address) ||
      this.#links.some((link) => isLoopbackLink(link) && link.addresses.some(isWithin)) ||
      this.#routes.some((route) => route.type === 'local' && contains(route.destination, address))
    )
  }

  /** The type of the address for `-m addrtype`. */
  addressType(address: string): AddressType {
    return this.#types.getOrCreate(address, (text) => this.#typeOf(text))
  }

  #typeOf(address: string): AddressType {
    if (this.isLocal(address)) return 'LOCAL'
    if (contains('224.0.0.0/4', address) || contains('ff00::/8', address)) return 'MULTICAST'
    if (address === '255.255.255.255' || this.#links.some((link) => isBroadcastOf(link, address)))
      return 'BROADCAST'
    const type = this.routeTo(address)?.type.toUpperCase()
    return type === 'BLACKHOLE' || type === 'UNREACHABLE' || type === 'PROHIBIT' ? type : 'UNICAST'
  }

  /**
   * The route with the longest prefix, then the smallest metric; undefined when the node has no
   * route.
   */
  routeTo(address: string): Route | undefined {
    let best: Route | undefined
    for (const route of this.#routes) {
      if (!contains(route.destination, address)) continue
      const longer = best ? lengthOf(route) - lengthOf(best) : 1
      if (!best || longer > 0 || (longer === 0 && route.metric < best.metric)) best = route
    }
    return best
  }

  /** The outgoing interface for an address: `lo` for the node's own. */
  deviceTo(address: string): string | undefined {
    return this.isLocal(address) ? 'lo' : this.routeTo(address)?.device
  }

  /**
   * The source address that the kernel selects for a destination: a local address itself (route of
   * the local table), else the route's, else the first of the interface.
   */
  sourceTo(address: string): string | undefined {
    if (this.isLocal(address)) return contains('127.0.0.0/8', address) ? '127.0.0.1' : address
    const route = this.routeTo(address)
    if (route?.source !== undefined) return route.source
    return route?.device === undefined ? undefined : this.addressOf(route.device, address)
  }

  /**
   * The first address of an interface of the family of `like`, its global ones before its
   * link-local ones.
   */
  addressOf(device: string, like: string): string | undefined {
    const family = familyOf(like)
    const addresses = this.#links.find((link) => link.name === device)?.addresses ?? []
    const own = addresses
      .map(({ address }) => address)
      .filter((address) => familyOf(address) === family)
    return own.find((address) => !contains('fe80::/10', address)) ?? own[0]
  }

  /**
   * The interface of a Pod's packets: the one of its route, else the link whose address has the
   * longest common prefix with the Pod's.
   */
  podInterface(source: string): string | undefined {
    const route = this.routeTo(source)
    if (route && lengthOf(route) > 0) return route.device
    let best: { name: string; bits: number } | undefined
    for (const link of this.#links) {
      if (isLoopbackLink(link) || link.name === route?.device || link.flags.includes('NOARP'))
        continue
      const bits = Math.max(0, ...link.addresses.map(({ address }) => commonBits(address, source)))
      if (bits > (best?.bits ?? 0)) best = { name: link.name, bits }
    }
    return best?.name ?? route?.device
  }

  /**
   * A machine outside the cluster: the router of the default route, else an address reserved for
   * documentation (RFC 5737, RFC 3849).
   */
  neighbourOutside(like: string): string {
    const isIPv4 = familyOf(like) === 'ipv4'
    const router = this.#routes.find(
      ({ destination }) => destination === (isIPv4 ? '0.0.0.0/0' : '::/0'),
    )?.via
    return router ?? (isIPv4 ? '203.0.113.9' : '2001:db8::9')
  }
}

function isLoopbackLink(link: Link): boolean {
  return link.flags.includes('LOOPBACK') || link.name === 'lo'
}

function lengthOf(route: Route): number {
  return parsePrefix(route.destination)?.length ?? 0
}

function isBroadcastOf(link: Link, address: string): boolean {
  return link.addresses.some((own) => {
    if (own.family !== 'inet' || own.prefixLength > 30 || isLoopbackLink(link)) return false
    return (
      ipaddr.IPv4.broadcastAddressFromCIDR(`${own.address}/${own.prefixLength}`).toString() ===
      address
    )
  })
}

function derivedRoutes(links: readonly Link[]): Route[] {
  const routes: Route[] = []
  const uplinks = links.filter((link) => !isLoopbackLink(link) && !link.flags.includes('NOARP'))
  for (const link of uplinks) {
    for (const { address, prefixLength, family } of link.addresses) {
      if (prefixLength === (family === 'inet' ? 32 : 128)) continue
      const destination = `${address}/${prefixLength}`
      routes.push({ type: 'unicast', destination, device: link.name, source: address, metric: 0 })
    }
  }
  for (const everywhere of ['0.0.0.0/0', '::/0']) {
    // Point-to-point links of Pods have only host prefixes, and so no route.
    const leadsOut = ({ device, source = '' }: Route, { name }: Link) =>
      device === name && familyOf(source) === familyOf(everywhere) && !contains('fe80::/10', source)
    const uplink = uplinks.find(
      (link) => !NO_UPLINK.has(link.kind ?? '') && routes.some((route) => leadsOut(route, link)),
    )
    if (uplink)
      routes.push({ type: 'unicast', destination: everywhere, device: uplink.name, metric: 0 })
  }
  return routes
}
