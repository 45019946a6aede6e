import ipaddr from 'ipaddr.js'
import { Remembered } from './remembered.ts'

/** An address or prefix as a number: comparing and masking need no text. */
export interface Prefix {
  family: 4 | 6
  bits: bigint
  /** The same of an IPv4 address as an unsigned number; 0 for IPv6. */
  number: number
  length: number
}

const known = new Remembered<Prefix | undefined>(100_000)

/** Reads `10.0.0.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `fd00::1` or `fd00::/64`; undefined when it is neither. */
export function parsePrefix(text: string): Prefix | undefined {
  return known.of(text, readPrefix)
}

function readPrefix(text: string): Prefix | undefined {
  const slash = text.indexOf('/')
  const address = slash === -1 ? text : text.slice(0, slash)
  if (!ipaddr.IPv4.isValidFourPartDecimal(address) && !ipaddr.IPv6.isValid(address)) return undefined
  const bytes = ipaddr.parse(address).toByteArray()
  const family = bytes.length === 4 ? 4 : 6
  const width = bytes.length * 8
  const length = slash === -1 ? width : prefixLength(text.slice(slash + 1))
  if (length === undefined || length > width) return undefined
  const bits = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  return { family, bits, number: family === 4 ? Number(bits) : 0, length }
}

function prefixLength(text: string): number | undefined {
  if (/^\d{1,3}$/.test(text)) return Number(text)
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) return undefined
  return ipaddr.IPv4.parse(text).prefixLengthFromSubnetMask() ?? undefined
}

/** Whether `address` lies in `prefix` (`10.0.0.0/8`); false when either is no address or the families differ. */
export function contains(prefix: string, address: string): boolean {
  // Most prefixes of kube-proxy's rules are one host, which is told by text alone.
  if (prefix.endsWith('/32') && !address.includes(':'))
    return prefix.length === address.length + 3 && prefix.startsWith(address) && IPV4.test(address)
  const network = parsePrefix(prefix)
  const host = parsePrefix(address)
  if (!network || !host || network.family !== host.family) return false
  if (network.family === 4)
    return network.length === 0 || (network.number ^ host.number) >>> (32 - network.length) === 0
  const shift = BigInt(128 - network.length)
  return network.bits >> shift === host.bits >> shift
}

/** How many leading bits two addresses of one family share; 0 across families. */
export function commonBits(one: string, other: string): number {
  const a = parsePrefix(one)
  const b = parsePrefix(other)
  if (!a || !b || a.family !== b.family) return 0
  const width = a.family === 4 ? 32 : 128
  const difference = a.bits ^ b.bits
  return difference === 0n ? width : width - difference.toString(2).length
}

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/

/** 4, 6, or undefined when the text is no address or prefix. */
export function familyOf(address: string): 4 | 6 | undefined {
  return IPV4.test(address) ? 4 : parsePrefix(address)?.family
}

/** The one spelling of an address that the kernel's tools print (`fd00::1`, no leading zeros); unknown text unchanged. */
export function canonicalAddress(address: string): string {
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address
  return ipaddr.IPv6.parse(address).toRFC5952String()
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function printEndpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** Reads `10.0.0.1:80` or `[fd00::1]:80`; undefined when address or port (0–65535) is none. */
export function parseEndpoint(text: string): { address: string; port: number } | undefined {
  const colon = text.lastIndexOf(':')
  if (colon === -1) return undefined
  const host = text.slice(0, colon)
  const bracketed = host.startsWith('[') && host.endsWith(']')
  const address = bracketed ? host.slice(1, -1) : host
  const family = address.includes('/') ? undefined : familyOf(address)
  const port = parsePort(text.slice(colon + 1))
  if (port === undefined || family === undefined || bracketed !== (family === 6)) return undefined
  return { address: canonicalAddress(address), port }
}

/** A port number from text, 0–65535; undefined for anything else. */
export function parsePort(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined
  const port = Number(text)
  return port <= 65535 ? port : undefined
}
