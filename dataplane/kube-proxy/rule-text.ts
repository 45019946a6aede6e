// Rules as iptables-save prints them: source, destination, interface, protocol, then matches, then the target.

import { hash } from 'node:crypto'
import { type Family, hostLength } from '../ip-address.ts'
import type { KubeProxyConfig } from './config.ts'

/** `0x4000/0x4000`: the mark that requests masquerading, with its mask. */
export function masqueradeMark(config: KubeProxyConfig): { mark: string; hex: string } {
  const hex = `0x${(2 ** config.masqueradeBit).toString(16)}`
  return { hex, mark: `${hex}/${hex}` }
}

export const rejectTarget = (family: Family): string =>
  `REJECT --reject-with ${family === 'ipv4' ? 'icmp' : 'icmp6'}-port-unreachable`

/** `-p tcp -m comment --comment "…" -m tcp --dport 80 `, with extra matches between comment and port. */
export const toPort = (protocol: string, comment: string, port: number, matches = ''): string =>
  `-p ${protocol} -m comment --comment "${comment}" ${matches}-m ${protocol} --dport ${port} `

/** A match on one address and port. */
export const toAddress = (family: Family, address: string, protocol: string, comment: string, port: number): string =>
  `-d ${address}${hostLength(family)} ${toPort(protocol, comment, port)}`

export const commented = (comment: string): string => `-m comment --comment "${comment}" `

const probabilities: string[] = []

/**
 * The probability for the first of `count` endpoints. kube-proxy writes ten digits, the kernel stores 31 bits
 * (xt_statistic), and iptables-save prints eleven digits.
 */
export function probability(count: number): string {
  probabilities[count] ??= (Math.round(Number((1 / count).toFixed(10)) * 2 ** 31) / 2 ** 31).toFixed(11)
  return probabilities[count]
}

/** The `recent` match, which implements session affinity with a list of clients per endpoint chain. */
export const recent = (family: Family, chain: string, action: string): string =>
  `-m recent ${action} --name ${chain} --mask ${
    family === 'ipv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'
  } --rsource `

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

/**
 * Prefixes of the chains that kube-proxy creates per Service port or endpoint, and deletes when they are
 * stale.
 */
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
