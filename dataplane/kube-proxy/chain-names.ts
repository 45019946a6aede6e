import { hash } from 'node:crypto'

const BASE32 = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')
/**
 * Names are written here: V8 would keep a joined text as a tree of its parts, of which a large
 * cluster has a million.
 */
const place = Buffer.alloc(64)

/**
 * The first letters of the base32 (RFC 4648) text of the SHA-256 of `text`.
 * @param prefix at most 48 ASCII letters, written before them
 */
export function shortHash(text: string, length: 8 | 16 = 16, prefix = ''): string {
  const digest = hash('sha256', text, 'binary')
  const start = place.write(prefix, 'latin1')
  for (let letter = 0; letter < length; letter++) {
    const bit = 5 * letter
    // Five bits lie within two bytes.
    const word = (digest.charCodeAt(bit >> 3) << 8) | digest.charCodeAt((bit >> 3) + 1)
    place[start + letter] = BASE32[(word >> (11 - (bit & 7))) & 31] ?? 0
  }
  return place.toString('latin1', 0, start + length)
}

/**
 * Prefixes of the chains that kube-proxy creates per Service port or endpoint, and deletes when
 * they are stale.
 */
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
  return shortHash(servicePortName + protocol + endpoint, 16, 'KUBE-SEP-')
}
