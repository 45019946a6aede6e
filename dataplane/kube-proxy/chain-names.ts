import { hash } from 'node:crypto'

const BASE32 = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567']
/** The two letters of each number of ten bits. */
const PAIRS = BASE32.flatMap((first) => BASE32.map((second) => first + second))

/** The first letters of the base32 (RFC 4648) text of the SHA-256 of `text`. */
export function shortHash(text: string, length: 8 | 16 = 16): string {
  const digits = hash('sha256', text)
  let letters = ''
  // Five hexadecimal digits are four letters.
  for (let at = 0; letters.length < length; at += 5) {
    const bits = Number.parseInt(digits.slice(at, at + 5), 16)
    letters += `${PAIRS[bits >> 10]}${PAIRS[bits & 1023]}`
  }
  return letters
}

/** Prefixes of the chains that kube-proxy creates per Service port or endpoint, and deletes when they are stale. */
const SERVICE_CHAIN_PREFIXES = [
  'KUBE-SVC-',
  'KUBE-SVL-',
  'KUBE-EXT-',
  'KUBE-FW-',
  'KUBE-XLB-',
  'KUBE-SEP-',
] as const

export const isServiceChain = (chain: string): boolean =>
  SERVICE_CHAIN_PREFIXES.some((prefix) => chain.startsWith(prefix))

/**
 * The hash that the chains of one Service port share.
 * @param servicePortName `namespace/name:port`, or `namespace/name` for the unnamed port
 * @param protocol lower case
 */
export function serviceHash(servicePortName: string, protocol: string): string {
  return shortHash(servicePortName + protocol)
}

/** `KUBE-SEP-…` of one endpoint, written `ip:port` or `[ip]:port`. */
export function endpointChain(servicePortName: string, protocol: string, endpoint: string): string {
  return `KUBE-SEP-${shortHash(servicePortName + protocol + endpoint)}`
}
