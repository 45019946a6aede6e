import * as crypto from 'node:crypto'

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Two base32 letters for every 10-bit number: half the look-ups when a hundred thousand names are made. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => `${BASE32[bits >> 5]}${BASE32[bits & 31]}`)

/** The first 16 letters of the base32 (RFC 4648) text of the SHA-256 of `text`. */
function hash16(text: string): string {
  const digest = crypto.createHash('sha256').update(text).digest()
  let name = ''
  for (let index = 0; index < 10; index += 5) {
    const a = digest[index] as number
    const b = digest[index + 1] as number
    const c = digest[index + 2] as number
    const d = digest[index + 3] as number
    const e = digest[index + 4] as number
    name += `${PAIRS[(a << 2) | (b >> 6)]}${PAIRS[((b & 63) << 4) | (c >> 4)]}${PAIRS[((c & 15) << 6) | (d >> 2)]}${PAIRS[((d & 3) << 8) | e]}`
  }
  return name
}

export type ServiceChainPrefix = 'KUBE-SVC-' | 'KUBE-SVL-' | 'KUBE-EXT-' | 'KUBE-FW-' | 'KUBE-XLB-'

/** Prefixes of the chains that kube-proxy makes per Service port or endpoint, and deletes when they go stale. */
export const SERVICE_CHAIN_PREFIXES = [
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
export const serviceHash = (servicePortName: string, protocol: string): string => hash16(servicePortName + protocol)

/** `KUBE-SEP-…` of one endpoint, written `ip:port` or `[ip]:port`. */
export const endpointChain = (servicePortName: string, protocol: string, endpoint: string): string =>
  `KUBE-SEP-${hash16(servicePortName + protocol + endpoint)}`
