import ipaddr from 'ipaddr.js'
import { type AddressRange, addressBits, type Family, parseRange } from './ip-address.ts'

/** One rule as `nft list` prints it, without its comment. */
export interface NftRule {
  text: string
  comment?: string
}

/** The hook of a base chain. */
export interface NftHook {
  type: string
  hook: string
  /** -110 for `dstnat - 10`, -100 for `dstnat`, 0 for `filter`, 100 for `srcnat`. */
  priority: number
  /** Absent for policy accept. */
  policy?: 'drop'
}

export interface NftChain {
  /** Absent for a regular chain. */
  base?: NftHook
  rules: NftRule[]
}

export interface NftSet {
  /** `ipv4_addr . inet_proto . inet_service` */
  type: string
  flags: string[]
  /** Seconds. */
  timeout?: number
  /** `10.96.0.1`, `10.96.0.1 . tcp . 443` */
  elements: Set<string>
}

export interface NftMap {
  /** Of the key. */
  type: string
  /** Key → `goto service-…`, `drop`. */
  elements: Map<string, string>
}

/** One table of nf_tables. Each program has its own tables. */
export interface NftTable {
  family: 'ip' | 'ip6' | 'inet'
  name: string
  chains: Map<string, NftChain>
  sets: Map<string, NftSet>
  maps: Map<string, NftMap>
}

/** `ip kube-proxy`, as commands and traces name a table. */
export const nftTitle = ({ family, name }: Pick<NftTable, 'family' | 'name'>): string => `${family} ${name}`

/** The name of kube-proxy's own table, one in family ip and one in family ip6. */
export const KUBE_PROXY_TABLE = 'kube-proxy'

const listed = ({ elements }: NftSet | NftMap): string[] =>
  elements instanceof Map ? [...elements].map(([key, value]) => `${key} : ${value}`) : [...elements]

/** The declaration of a set or map without its elements. */
function printFrame(name: string, frame: NftSet | NftMap): string {
  if (!('flags' in frame)) return `map ${name} { type ${frame.type} : verdict; `
  const { type, flags, timeout } = frame
  const options = [flags.length > 0 ? `flags ${flags.join(',')}; ` : '', timeout ? `timeout ${timeout}s; ` : '']
  return `set ${name} { type ${type}; ${options.join('')}`
}

function printBase({ base }: NftChain): string {
  if (!base) return ''
  const policy = base.policy ? ` policy ${base.policy};` : ''
  return ` type ${base.type} hook ${base.hook} priority ${base.priority};${policy}`
}

const printRules = (table: string, chain: string, { rules }: NftChain): string[] =>
  rules.map(
    ({ text, comment }) => `add rule ${table} ${chain} ${text}${comment === undefined ? '' : ` comment "${comment}"`}`,
  )

const framesOf = ({ sets, maps }: Pick<NftTable, 'sets' | 'maps'>) =>
  new Map<string, NftSet | NftMap>([...sets, ...maps])

/**
 * The lines of a script that changes the table `held` into `wanted`. Only differences are changed, so that connections continue and
 * dynamic sets keep their elements. Empty if there is no difference.
 * @param rewrite rewrites every chain, even if it is unchanged
 */
function changesOf(held: NftTable, wanted: NftTable, rewrite = false): string[] {
  const table = nftTitle(wanted)
  const [make, empty, fill, drop]: [string[], string[], string[], string[]] = [[], [], [], []]
  for (const [name, chain] of wanted.chains) {
    const there = held.chains.get(name)
    if (there && !rewrite && there.rules === chain.rules) continue
    const rules = printRules(table, name, chain)
    if (there && !rewrite && printRules(table, name, there).join('\n') === rules.join('\n')) continue
    if (there) empty.push(`flush chain ${table} ${name}`)
    else make.push(`add chain ${table} ${name} {${printBase(chain)} }`)
    fill.push(...rules)
  }
  for (const name of held.chains.keys())
    if (!wanted.chains.has(name)) {
      empty.push(`flush chain ${table} ${name}`)
      drop.push(`delete chain ${table} ${name}`)
    }
  const [there, frames] = [framesOf(held), framesOf(wanted)]
  for (const [name, frame] of frames) {
    const old = there.get(name)
    if (!old) make.push(`add ${printFrame(`${table} ${name}`, frame)}}`)
    if ('flags' in frame && frame.flags.includes('dynamic')) continue
    const [now, before] = [new Set(listed(frame)), new Set(old && listed(old))]
    const gone = [...before].filter((item) => !now.has(item)).map((item) => item.replace(/ : .*/s, ''))
    const added = [...now].filter((item) => !before.has(item))
    for (const items of inGroups(gone)) empty.push(`delete element ${table} ${name} { ${items} }`)
    for (const items of inGroups(added)) fill.push(`add element ${table} ${name} { ${items} }`)
  }
  for (const [name, frame] of there)
    if (!frames.has(name)) drop.push(`delete ${'flags' in frame ? 'set' : 'map'} ${table} ${name}`)
  return [...make, ...empty, ...fill, ...drop]
}

const ELEMENTS_PER_LINE = 100

const inGroups = (items: readonly string[]): string[] =>
  Array.from({ length: Math.ceil(items.length / ELEMENTS_PER_LINE) }, (_, index) =>
    items.slice(index * ELEMENTS_PER_LINE, (index + 1) * ELEMENTS_PER_LINE).join(', '),
  )

/**
 * Characters of a script whose transaction fits into the send buffer of a netlink socket (twice net.core.wmem_max, 416 KiB by default).
 * Only root of the machine can enlarge it (SO_SNDBUFFORCE), not root of a user namespace. A rule takes five times its text.
 */
const TRANSACTION_LENGTH = 40_000

/**
 * Prints the scripts for `nft -f` that change `held` into `wanted`: one, unless its transaction would be too large for the kernel.
 * Chains, sets and maps come first, so that later scripts refer only to what exists.
 * @param held undefined if the table does not exist, or is to be replaced
 */
export function printNftTransactions(held: NftTable | undefined, wanted: NftTable, rewrite = false): string[] {
  const table = nftTitle(wanted)
  const nothing: NftTable = { ...wanted, chains: new Map(), sets: new Map(), maps: new Map() }
  const replace = [`add table ${table}`, `delete table ${table}`, `add table ${table}`]
  const lines =
    held && isSameFrame(held, wanted) ? changesOf(held, wanted, rewrite) : [...replace, ...changesOf(nothing, wanted)]
  const scripts: string[] = []
  let next = ''
  for (const line of lines) {
    if (next !== '' && next.length + line.length > TRANSACTION_LENGTH) {
      scripts.push(next)
      next = ''
    }
    next += `${line}\n`
  }
  return next === '' ? scripts : [...scripts, next]
}

/** Prints a table as a script for `nft -f` that replaces a table of the same name. */
export const printNftTable = (table: NftTable): string => printNftTransactions(undefined, table).join('')

/** Whether the properties that a transaction can't change are equal: hooks of chains, types of sets and maps. */
function isSameFrame(held: NftTable, wanted: NftTable): boolean {
  const declarations = ({ chains, ...table }: NftTable) =>
    new Map([
      ...[...chains].map(([name, chain]) => [`chain ${name}`, printBase(chain)] as const),
      ...[...framesOf(table)].map(([name, frame]) => [name, printFrame(name, frame)] as const),
    ])
  const now = declarations(wanted)
  return [...declarations(held)].every(([name, declaration]) => (now.get(name) ?? declaration) === declaration)
}

function merge(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: AddressRange[] = []
  for (const range of [...ranges].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const before = merged.at(-1)
    if (!before || range.first > before.last + 1n) merged.push({ ...range })
    else if (range.last > before.last) before.last = range.last
  }
  return merged
}

function address(bits: bigint, family: Family): string {
  const size = addressBits(family) / 8
  const bytes = Array.from({ length: size }, (_, index) => Number((bits >> BigInt(8 * (size - 1 - index))) & 255n))
  return family === 'ipv4' ? bytes.join('.') : new ipaddr.IPv6(bytes).toRFC5952String()
}

/** A single address, a prefix if the range is one, else both ends. */
function print({ family, first, last }: AddressRange): string {
  if (first === last) return address(first, family)
  const size = last - first + 1n
  const isPrefix = (size & (size - 1n)) === 0n && first % size === 0n
  if (!isPrefix) return `${address(first, family)}-${address(last, family)}`
  return `${address(first, family)}/${addressBits(family) - (size.toString(2).length - 1)}`
}

/**
 * Addresses, prefixes and ranges as nft lists a set of intervals: without overlaps, adjacent ones joined, in ascending order.
 * Two sets contain the same addresses if the results are equal. Undefined if a member is not an address.
 */
export function mergeAddresses(members: readonly string[]): string[] | undefined {
  const ranges = members.flatMap((member) => parseRange(member) ?? [])
  const isComplete = ranges.length === members.length && ranges.every(({ family }) => family === ranges[0]?.family)
  return isComplete && ranges.length > 0 ? merge(ranges).map(print) : undefined
}

/** An anonymous set, without braces if it has only one member: nft prints either form, depending on how the rule was written. */
export function anonymousSetText(members: readonly string[]): string {
  const merged = mergeAddresses(members) ?? [...members].sort()
  return merged.length === 1 ? `${merged[0]}` : `{ ${merged.join(', ')} }`
}
