import ipaddr from 'ipaddr.js'
import { BoundedCache } from './bounded-cache.ts'

/** An IP family: of an address, and of the rules, sets and virtual servers of one proxier. */
export type Family = 'ipv4' | 'ipv6'

/** Names of protocol numbers. Source: IANA. */
export const PROTOCOL_NUMBERS: Readonly<Record<string, string>> = {
  '6': 'tcp',
  '17': 'udp',
  '132': 'sctp',
}

/** The number of bits of an address of the family. */
export const addressBits = (family: Family): 32 | 128 => (family === 'ipv4' ? 32 : 128)

/** `10.0.0.1/32`, `fd00::1/128`: a single address as iptables-save prints it. */
export const asHost = (address: string): string =>
  `${address}${address.includes(':') ? '/128' : '/32'}`

export const loopbackRange = (family: Family): string =>
  family === 'ipv4' ? '127.0.0.0/8' : '::1/128'

/** An address or prefix as a number: comparing and masking need no text. */
export interface Prefix {
  family: Family
  bits: bigint
  length: number
}

// A capture repeats the same addresses in thousands of rules.
const prefixes = new BoundedCache<Prefix | undefined>(100_000)

/**
 * Reads `10.0.0.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `fd00::1` or `fd00::/64`; undefined for
 * other text.
 */
export function parsePrefix(text: string): Prefix | undefined {
  return prefixes.getOrCreate(text, readPrefix)
}

function readPrefix(text: string): Prefix | undefined {
  const slash = text.indexOf('/')
  const address = slash === -1 ? text : text.slice(0, slash)
  if (!ipaddr.IPv4.isValidFourPartDecimal(address) && !ipaddr.IPv6.isValid(address))
    return undefined
  const bytes = ipaddr.parse(address).toByteArray()
  const family = bytes.length === 4 ? 'ipv4' : 'ipv6'
  const width = addressBits(family)
  const length = slash === -1 ? width : prefixLength(text.slice(slash + 1))
  if (length === undefined || length > width) return undefined
  return { family, bits: bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n), length }
}

function prefixLength(text: string): number | undefined {
  if (/^\d{1,3}$/.test(text)) return Number(text)
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) return undefined
  return ipaddr.IPv4.parse(text).prefixLengthFromSubnetMask() ?? undefined
}

/** Addresses from `first` to `last` as numbers. */
export interface AddressRange {
  family: Family
  first: bigint
  last: bigint
}

const ranges = new BoundedCache<AddressRange | undefined>(100_000)

/** Reads `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.9`; undefined for other text. */
export const parseRange = (text: string): AddressRange | undefined =>
  ranges.getOrCreate(text, () => {
    const [from = '', to = from] = text.split('-')
    const [start, end] = [parsePrefix(from), parsePrefix(to)]
    if (!start || !end || start.family !== end.family) return undefined
    const host = (length: number) => (1n << BigInt(addressBits(start.family) - length)) - 1n
    const [first, last] = [start.bits & ~host(start.length), end.bits | host(end.length)]
    return first > last ? undefined : { family: start.family, first, last }
  })

/**
 * Whether `range` (as parseRange reads it) contains `address`; false if either is invalid or the
 * families differ.
 */
export function contains(range: string, address: string): boolean {
  const [within, host] = [parseRange(range), parsePrefix(address)]
  return (
    within !== undefined &&
    within.family === host?.family &&
    within.first <= host.bits &&
    host.bits <= within.last
  )
}

/**
 * The address `offset` behind the first one of a range, or behind its last one if it is negative;
 * the nearest one of a smaller range.
 */
export function addressIn({ family, first, last }: AddressRange, offset: number): string {
  const wanted = (offset < 0 ? last : first) + BigInt(offset)
  const bits = wanted < first ? first : wanted > last ? last : wanted
  const bytes = addressBits(family) / 8
  const octets = Array.from({ length: bytes }, (_, at) =>
    Number((bits >> BigInt(8 * (bytes - 1 - at))) & 0xffn),
  )
  return canonicalAddress(ipaddr.fromByteArray(octets).toString())
}

/**
 * An address of a range that probably no Pod and no Service has: the 250th, or the last but five of
 * a smaller range; undefined for other text.
 */
export function quietAddress(text: string): string | undefined {
  const range = parseRange(text)
  if (!range) return undefined
  return addressIn(range, range.last - range.first > 0xffn ? 250 : -5)
}

/** The number of leading bits that two addresses of one family share; 0 for different families. */
export function commonBits(one: string, other: string): number {
  const a = parsePrefix(one)
  const b = parsePrefix(other)
  if (!a || !b || a.family !== b.family) return 0
  const difference = a.bits ^ b.bits
  return addressBits(a.family) - (difference === 0n ? 0 : difference.toString(2).length)
}

/** The family of an address or prefix; undefined for other text. */
export const familyOf = (text: string): Family | undefined => parsePrefix(text)?.family

/**
 * kube-proxy reads numbers with leading zeros as decimal (Go's net.ParseIP before 1.17, kept as
 * ParseIPSloppy in k8s.io/utils/net).
 */
const OCTET = '0{0,8}(?:25[0-5]|2[0-4]\\d|1\\d\\d|\\d?\\d)'
const SLOPPY_IPV4 = new RegExp(`^(?:${OCTET}\\.){3}${OCTET}$`)

/**
 * The family of an address as kube-proxy accepts it in an object (dotted quad, or IPv6 without a
 * zone), or undefined.
 */
export function acceptedFamily(address: string): Family | undefined {
  if (SLOPPY_IPV4.test(address)) return 'ipv4'
  return address.includes(':') && !address.includes('%') && ipaddr.IPv6.isValid(address)
    ? 'ipv6'
    : undefined
}

/**
 * True for `address/length` with an address that kube-proxy accepts and a length that fits its
 * family.
 */
export function isCidr(text: string): boolean {
  const match = /^([^/]+)\/0{0,8}(\d{1,3})$/.exec(text)
  const family = acceptedFamily(match?.[1] ?? '')
  return family !== undefined && Number(match?.[2]) <= addressBits(family)
}

const canonicalIPv6 = new BoundedCache<string>(100_000)

/**
 * An address in the spelling of the kernel's tools (no leading zeros, RFC 5952); other text is
 * unchanged.
 */
export function canonicalAddress(address: string): string {
  if (address.includes(':'))
    return canonicalIPv6.getOrCreate(address, (text) =>
      ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text).toRFC5952String() : text,
    )
  return SLOPPY_IPV4.test(address) ? address.split('.').map(Number).join('.') : address
}

/**
 * `10.0.0.1` for the IPv4-mapped address `::ffff:10.0.0.1`, `10.0.0.0/8` for the range
 * `::ffff:10.0.0.0/104`; other text is unchanged. Go's net.IP has both in one form, so that
 * kube-proxy and the API server count them as IPv4 (IP.To4, IPNet.String).
 */
export function unmapped(text: string): string {
  if (!text.includes(':')) return text
  const { family, bits, length } = parsePrefix(text) ?? {}
  if (family !== 'ipv6' || length === undefined || length < 96 || bits === undefined) return text
  if (bits >> 32n !== 0xffffn) return text
  const address = ipaddr.fromByteArray([24n, 16n, 8n, 0n].map((by) => Number((bits >> by) & 0xffn)))
  return text.includes('/') ? `${address}/${length - 96}` : address.toString()
}

/** An address range with its host bits cleared, as Go's net.IPNet and iptables print it. */
export function canonicalCidr(cidr: string): string {
  const range = cidr.includes(':') ? ipaddr.IPv6 : ipaddr.IPv4
  return `${canonicalAddress(range.networkAddressFromCIDR(cidr).toString())}${cidr.slice(cidr.indexOf('/'))}`
}

/** True for 0.0.0.0/0 and ::/0. */
export const isZeroCidr = (cidr: string): boolean => cidr.endsWith('/0')

export const isLoopbackAddress = (address: string): boolean =>
  address === '::1' || address.startsWith('127.')

/** fe80::/10, which kube-proxy never serves node ports on. */
export const isIPv6LinkLocal = (address: string): boolean => /^fe[89ab]/i.test(address)

/** `10.0.0.1:80`, `[fd00::1]:80`, as Go's net.JoinHostPort writes them. */
export function printEndpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** Reads `10.0.0.1:80` or `[fd00::1]:80`; undefined if the address or port (0–65535) is invalid. */
export function parseEndpoint(text: string): { address: string; port: number } | undefined {
  const colon = text.lastIndexOf(':')
  if (colon === -1) return undefined
  const host = text.slice(0, colon)
  const bracketed = host.startsWith('[') && host.endsWith(']')
  const address = bracketed ? host.slice(1, -1) : host
  const family = address.includes('/') ? undefined : familyOf(address)
  const port = parsePort(text.slice(colon + 1))
  if (port === undefined || family === undefined || bracketed !== (family === 'ipv6'))
    return undefined
  return { address: canonicalAddress(address), port }
}

/** A port number from text, 0–65535; undefined for anything else. */
export function parsePort(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined
  const port = Number(text)
  return port <= 65535 ? port : undefined
}
