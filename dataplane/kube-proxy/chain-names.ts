import { hash } from 'node:crypto'

const BASE32 = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 'latin1')
const PREFIX = 'KUBE-SEP-'
/** Reused for every name: a string made at once from bytes is flat, and a hundred thousand flat ones are cheap to keep. */
const name = Buffer.from(`${PREFIX}${'A'.repeat(16)}`, 'latin1')

/** Writes the first 16 letters of the base32 (RFC 4648) text of the SHA-256 of `text` behind the prefix. */
function writeHash(text: string): void {
  // One letter per byte: far cheaper than a Buffer per hash.
  const digest = hash('sha256', text, 'binary')
  let at = PREFIX.length
  let bits = 0
  let count = 0
  for (let index = 0; index < 10; index++) {
    bits = ((bits & 31) << 8) | digest.charCodeAt(index)
    count += 8
    while (count >= 5) {
      count -= 5
      name[at++] = BASE32[(bits >> count) & 31] as number
    }
  }
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
  writeHash(servicePortName + protocol)
  return name.toString('latin1', PREFIX.length)
}

/** `KUBE-SEP-…` of one endpoint, written `ip:port` or `[ip]:port`. */
export function endpointChain(servicePortName: string, protocol: string, endpoint: string): string {
  writeHash(servicePortName + protocol + endpoint)
  return name.toString('latin1')
}
