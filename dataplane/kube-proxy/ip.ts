import ipaddr from 'ipaddr.js'

export { canonicalAddress } from '../objects/field-reader.ts'

/** `ipv4` or `ipv6`: the family of the rules, sets and virtual servers of one proxier. */
export type Family = 'ipv4' | 'ipv6'

export const familyOf = (address: string): Family => (address.includes(':') ? 'ipv6' : 'ipv4')

/** An address range with its host bits cleared, as Go's net.IPNet and iptables print it. */
export function canonicalCidr(cidr: string): string {
  const slash = cidr.indexOf('/')
  const address = cidr.slice(0, slash)
  const length = Number(cidr.slice(slash + 1))
  if (address.includes(':')) return `${ipaddr.IPv6.networkAddressFromCIDR(cidr).toRFC5952String()}/${length}`
  return `${ipaddr.IPv4.networkAddressFromCIDR(cidr).toString()}/${length}`
}

/** True when the range is of the address's family and holds it. */
export function cidrContains(cidr: string, address: string): boolean {
  if (familyOf(cidr) !== familyOf(address)) return false
  return ipaddr.parse(address).match(ipaddr.parseCIDR(cidr))
}

/** True for 0.0.0.0/0 and ::/0. */
export const isZeroCidr = (cidr: string): boolean => cidr.endsWith('/0')

export const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.')

/** fe80::/10, which kube-proxy never serves node ports on. */
export const isIPv6LinkLocal = (address: string): boolean => /^fe[89ab]/i.test(address)

/** `ip:port`, with brackets for IPv6, as Go's net.JoinHostPort writes it. */
export const joinHostPort = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`

/** `/32` or `/128`: what iptables-save appends to a single address. */
export const hostLength = (family: Family): string => (family === 'ipv4' ? '/32' : '/128')

export const loopbackRange = (family: Family): string => (family === 'ipv4' ? '127.0.0.0/8' : '::1/128')
