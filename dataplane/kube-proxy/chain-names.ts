import { hash } from 'node:crypto'

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The first 16 letters of the base32 (RFC 4648) text of the SHA-256 of `text`. */
function shortHash(text: string): string {
  let letters = ''
  let bits = 0
  let count = 0
  for (const byte of hash('sha256', text, 'buffer').subarray(0, 10)) {
    bits = ((bits & 31) << 8) | byte
    count += 8
    while (count >= 5) {
      count -= 5
      letters += BASE32[(bits >> count) & 31]
    }
  }
  return letters
}

/** Prefixes of the chains that kube-proxy makes per Service port or endpoint, and deletes when they go stale. */
const SERVICE_CHAIN_PREFIXES = ['KUBE-SVC-', 'KUBE-SVL-', 'KUBE-EXT-', 'KUBE-FW-', 'KUBE-XLB-', 'KUBE-SEP-'] as const

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
