import { hash } from 'node:crypto'
import { asHost, type Family, isZeroCidr } from '../ip-address.ts'
import type { Chain, Rule, Ruleset, Table } from '../iptables-save.ts'
import type { KubeProxyConfig } from './config.ts'

type TableName = 'nat' | 'filter' | 'mangle'

const BUILT_IN: Record<TableName, readonly string[]> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
}

/** True for a built-in chain of that table. */
export const isBuiltIn = (table: string, chain: string): boolean =>
  table in BUILT_IN && BUILT_IN[table as TableName].includes(chain)

/** Builds the chains of one table. */
export class TableBuilder {
  readonly table: Table = new Map()

  constructor(name: TableName) {
    for (const chain of BUILT_IN[name]) this.table.set(chain, { name: chain, policy: 'ACCEPT', rules: [] })
  }

  /** Creates the chain if it does not exist, and returns its rules, to which the caller can append. */
  chain(name: string): Rule[] {
    const known = this.table.get(name)
    if (known) return known.rules
    const chain: Chain = { name, policy: '-', rules: [] }
    this.table.set(name, chain)
    return chain.rules
  }

  add(chain: string, spec: string): void {
    this.chain(chain).push({ spec })
  }

  /** Adds a jump as EnsureRule(Prepend) does, above the earlier ones, and creates the chain that it leads to. */
  jump(from: string, to: string, comment = '', matches = ''): void {
    this.chain(to)
    this.chain(from).unshift({ spec: `${matches}${comment === '' ? '' : commented(comment)}-j ${to}` })
  }

  /** Adds a complete chain. */
  define(name: string, rules: Rule[]): void {
    this.table.set(name, { name, policy: '-', rules })
  }
}

/** The same rules with the chains in the order in which the kernel lists them: built-in chains first, the others by name. */
export function inKernelOrder(rules: Ruleset): Ruleset {
  const sorted: Ruleset = new Map()
  for (const [name, table] of rules) {
    const chains = [...table.values()]
    const builtIn = chains.filter((chain) => chain.policy !== '-')
    const own = chains.filter((chain) => chain.policy === '-')
    own.sort((a, b) => (a.name < b.name ? -1 : 1))
    sorted.set(name, new Map([...builtIn, ...own].map((chain) => [chain.name, chain])))
  }
  return sorted
}

export const ruleset = (tables: Partial<Record<TableName, TableBuilder>>): Ruleset =>
  new Map(Object.entries(tables).map(([name, { table }]) => [name, table]))

// Rules as iptables-save prints them: source, destination, interface, protocol, then matches, then the target.

/** `0x4000/0x4000`: the mark that requests masquerading, with its mask. */
export function masqueradeMark(config: KubeProxyConfig): { mark: string; hex: string } {
  const hex = `0x${(2 ** config.masqueradeBit).toString(16)}`
  return { hex, mark: `${hex}/${hex}` }
}

export const rejectTarget = (family: Family): string =>
  `REJECT --reject-with ${family === 'ipv4' ? 'icmp' : 'icmp6'}-port-unreachable`

export const commented = (comment: string): string => `-m comment --comment "${comment}" `

/** `-p tcp -m comment --comment "…" -m tcp --dport 80 `, with extra matches between comment and port. */
export const toPort = (protocol: string, comment: string, port: number, matches = ''): string =>
  `-p ${protocol} ${commented(comment)}${matches}-m ${protocol} --dport ${port} `

/** A match on one address with the port of a Service, and on the sender. */
export const toAddress = (
  address: string,
  { protocol, port }: { protocol: string; port: number },
  comment: string,
  { source, incoming }: SenderMatch = ANY_SENDER,
): string => `${source}-d ${asHost(address)} ${incoming}${toPort(protocol, comment, port)}`

/** A sender as iptables-save prints it: the source before the destination, the interface after it. */
export interface SenderMatch {
  source: string
  incoming: string
}

export const ANY_SENDER: SenderMatch = { source: '', incoming: '' }

/** How traffic from Pods of this node (or cluster) is recognised: by its source range or the interface it came in by. */
export interface LocalDetector {
  range?: string
  /** `cni0`, or `veth+` for a prefix. */
  device?: string
}

/** Pods of this node or the cluster, or with `! ` all other senders. */
export const localSender = ({ range, device }: LocalDetector, not: '' | '! ' = ''): SenderMatch => ({
  source: range === undefined ? '' : `${not}-s ${range} `,
  incoming: device === undefined ? '' : `${not}-i ${device} `,
})

/** A match on a source range; iptables-save omits a range of length 0, which contains every source. */
export const fromRange = (range: string): string => (isZeroCidr(range) ? '' : `-s ${range} `)

/**
 * The match that selects the first of `count` endpoints; none for the last one. kube-proxy writes ten digits of the probability, the
 * kernel stores 31 bits (xt_statistic), and iptables-save prints eleven digits.
 */
export function firstOf(count: number): string {
  if (count === 1) return ''
  const probability = Math.round(Number((1 / count).toFixed(10)) * 2 ** 31) / 2 ** 31
  return `-m statistic --mode random --probability ${probability.toFixed(11)} `
}

/** The `recent` match, which implements session affinity with a list of clients per endpoint chain. */
export const recent = (family: Family, chain: string, action: string): string =>
  `-m recent ${action} --name ${chain} --mask ${
    family === 'ipv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'
  } --rsource `

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The first letters of the base32 (RFC 4648) text of the SHA-256 of `text`. */
export function shortHash(text: string, length: 8 | 16 = 16): string {
  const digits = hash('sha256', text)
  let letters = ''
  // Five hexadecimal digits are four letters.
  for (let at = 0; letters.length < length; at += 5) {
    const bits = Number.parseInt(digits.slice(at, at + 5), 16)
    for (const shift of [15, 10, 5, 0]) letters += BASE32[(bits >> shift) & 31]
  }
  return letters
}

/** Prefixes of the chains that kube-proxy creates per Service port or endpoint, and deletes when they are stale. */
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
