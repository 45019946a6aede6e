import { isIPv4 } from 'node:net'

/** The first and last IPv4 address (inclusive) for Services of type LoadBalancer. */
export interface AddressPool {
  first: string
  last: string
}

/** An address, or the reason why there is none. */
export type AddressChoice = { ip: string } | { ip: undefined; fault: string }

/** The requested address, else the current one, else the first free one. */
export function chooseAddress(
  pool: AddressPool,
  requested: string | undefined,
  current: string | undefined,
  taken: ReadonlySet<string>,
): AddressChoice {
  const { first, last } = pool
  const range = `${first}-${last}`
  if (requested) {
    if (!isInPool(pool, requested))
      return {
        ip: undefined,
        fault: `requested address "${requested}" is not in the pool ${range}`,
      }
    if (taken.has(requested))
      return { ip: undefined, fault: `requested address "${requested}" belongs to another Service` }
    return { ip: requested }
  }
  if (current && isInPool(pool, current) && !taken.has(current)) return { ip: current }
  for (let number = toNumber(first); number <= toNumber(last); number++) {
    const ip = numberToAddress(number)
    if (!taken.has(ip)) return { ip }
  }
  return { ip: undefined, fault: `no address of the pool ${range} is free` }
}

export function isInPool({ first, last }: AddressPool, ip: string): boolean {
  return isIPv4(ip) && toNumber(ip) >= toNumber(first) && toNumber(ip) <= toNumber(last)
}

/**
 * The part of an IPv4 network that a container engine assigns last: 51 addresses near its end, as
 * in the embedded cluster's 172.18.0.0/16, or a quarter of a smaller network.
 * @throws Error if the network is too small
 */
export function poolOf(subnet: string): AddressPool {
  const [base = '', bits = ''] = subnet.split('/')
  const size = 2 ** (32 - Number(bits))
  if (!isIPv4(base) || !(size >= 16))
    throw new Error(`"${subnet}" is not an IPv4 network that is large enough for load balancers.`)
  const end = Math.floor(toNumber(base) / size) * size + size
  if (size >= 256) return { first: numberToAddress(end - 56), last: numberToAddress(end - 6) }
  return { first: numberToAddress(end - size / 4), last: numberToAddress(end - 2) }
}

/**
 * An address after the pool for a second client outside the cluster, which an engine would assign
 * last; undefined if the network is too small.
 */
export function secondClientOf(subnet: string): string | undefined {
  const { last } = poolOf(subnet)
  return 2 ** (32 - Number(subnet.split('/')[1])) >= 256
    ? numberToAddress(toNumber(last) + 4)
    : undefined
}

/** An IPv4 address as a number. */
export function toNumber(address: string): number {
  return address.split('.').reduce((number, part) => number * 256 + Number(part), 0)
}

export function numberToAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')
}
