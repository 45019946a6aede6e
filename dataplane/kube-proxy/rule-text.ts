// Parts of kube-proxy's rules as iptables-save prints them: source, destination, interface,
// protocol, then matches, then the target.

import { asHost, type Family, isZeroCidr } from '../ip-address.ts'
import { quoteWord } from '../program-output.ts'
import type { KubeProxyConfig } from './config.ts'

/** `0x4000/0x4000`: the mark that requests masquerading, with its mask. */
export function masqueradeMark(config: KubeProxyConfig): { mark: string; hex: string } {
  const hex = `0x${(2 ** config.masqueradeBit).toString(16)}`
  return { hex, mark: `${hex}/${hex}` }
}

export const rejectTarget = (family: Family): string =>
  `REJECT --reject-with ${family === 'ipv4' ? 'icmp' : 'icmp6'}-port-unreachable`

export const commented = (comment: string): string => `-m comment --comment ${quoteWord(comment)} `

/**
 * `-p tcp -m comment --comment "…" -m tcp --dport 80 `, with extra matches between comment and
 * port.
 */
export const toPort = (protocol: string, comment: string, port: number, matches = ''): string =>
  `-p ${protocol} ${commented(comment)}${matches}-m ${protocol} --dport ${port} `

/**
 * A match on one address with the port of a Service, and on the sender; joined, because V8 keeps a
 * template as a tree of its parts.
 */
export const toAddress = (
  address: string,
  { protocol, port }: { protocol: string; port: number },
  comment: string,
  { source, incoming }: SenderMatch = ANY_SENDER,
): string =>
  [source, '-d ', asHost(address), ' ', incoming, toPort(protocol, comment, port)].join('')

/**
 * A sender as iptables-save prints it: the source before the destination, the interface after it.
 */
export interface SenderMatch {
  source: string
  incoming: string
}

export const ANY_SENDER: SenderMatch = { source: '', incoming: '' }

/**
 * How traffic from Pods of this node (or cluster) is recognised: by its source range or the
 * interface it came in by.
 */
export interface LocalDetector {
  range?: string
  /** `cni0`, or `veth+` for a prefix. */
  device?: string
}

/** Pods of this node or the cluster, or with `! ` all other senders. */
export const localSender = (
  { range, device }: LocalDetector,
  not: '' | '! ' = '',
): SenderMatch => ({
  source: range === undefined ? '' : `${not}-s ${range} `,
  incoming: device === undefined ? '' : `${not}-i ${device} `,
})

/**
 * A match on a source range; iptables-save omits a range of length 0, which contains every source.
 */
export const fromRange = (range: string): string => (isZeroCidr(range) ? '' : `-s ${range} `)

/**
 * Texts of `jumpOfFirst` by count: Services with the same number of endpoints share these texts.
 */
const shares: string[] = []
const SHARES_KEPT = 1000

/**
 * The match that selects the first of `count` endpoints, none for the last one, and the jump to its
 * chain, whose name follows. kube-proxy writes ten digits of the probability, the kernel stores 31
 * bits (xt_statistic), and iptables-save prints eleven digits.
 */
export function jumpOfFirst(count: number): string {
  if (count === 1) return '-j '
  const known = shares[count]
  if (known !== undefined) return known
  const probability = Math.round(Number((1 / count).toFixed(10)) * 2 ** 31) / 2 ** 31
  const match = `-m statistic --mode random --probability ${probability.toFixed(11)} -j `
  if (count < SHARES_KEPT) shares[count] = match
  return match
}

/**
 * The `recent` match, which implements session affinity with a list of clients per endpoint chain.
 */
export const recent = (family: Family, chain: string, action: string): string =>
  `-m recent ${action} --name ${chain} --mask ${
    family === 'ipv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'
  } --rsource `
