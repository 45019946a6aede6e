// Scripts for `nft -f` that change or replace a table.

import { type NftChain, type NftMap, type NftSet, type NftTable, nftTitle } from './nft-table.ts'

const elementLines = ({ elements }: NftSet | NftMap): string[] =>
  elements instanceof Map ? [...elements].map(([key, value]) => `${key} : ${value}`) : [...elements]

/** The declaration of a set or map without its elements. */
function printFrame(name: string, frame: NftSet | NftMap): string {
  if (!('flags' in frame)) return `map ${name} { type ${frame.type} : verdict; `
  const { type, flags, timeout } = frame
  const options = [
    flags.length > 0 ? `flags ${flags.join(',')}; ` : '',
    timeout ? `timeout ${timeout}s; ` : '',
  ]
  return `set ${name} { type ${type}; ${options.join('')}`
}

function printBase({ base }: NftChain): string {
  if (!base) return ''
  const policy = base.policy ? ` policy ${base.policy};` : ''
  return ` type ${base.type} hook ${base.hook} priority ${base.priority};${policy}`
}

const printRules = (table: string, chain: string, { rules }: NftChain): string[] =>
  rules.map(
    ({ text, comment }) =>
      `add rule ${table} ${chain} ${text}${comment === undefined ? '' : ` comment "${comment}"`}`,
  )

const framesOf = ({ sets, maps }: Pick<NftTable, 'sets' | 'maps'>) =>
  new Map<string, NftSet | NftMap>([...sets, ...maps])

/**
 * The lines of a script that changes the table `current` into `wanted`. Only differences are
 * changed, so that connections continue and dynamic sets keep their elements. Empty if there is no
 * difference.
 * @param rewrite rewrites every chain, even if it is unchanged
 */
function changesOf(current: NftTable, wanted: NftTable, rewrite = false): string[] {
  const chains = chainChanges(current, wanted, rewrite)
  const elements = elementChanges(current, wanted)
  const phases = ['make', 'empty', 'fill', 'drop'] as const
  return phases.flatMap((phase) => [...chains[phase], ...elements[phase]])
}

/**
 * Lines by the phase of a transaction: what is referred to must exist, what is deleted must be
 * referred to by nothing.
 */
interface PhasedLines {
  make: string[]
  empty: string[]
  fill: string[]
  drop: string[]
}

function chainChanges(current: NftTable, wanted: NftTable, rewrite: boolean): PhasedLines {
  const table = nftTitle(wanted)
  const lines: PhasedLines = { make: [], empty: [], fill: [], drop: [] }
  const { make, empty, fill, drop } = lines
  for (const [name, chain] of wanted.chains) {
    const there = current.chains.get(name)
    if (there && !rewrite && there.rules === chain.rules) continue
    const rules = printRules(table, name, chain)
    if (there && !rewrite && printRules(table, name, there).join('\n') === rules.join('\n'))
      continue
    if (there) empty.push(`flush chain ${table} ${name}`)
    else make.push(`add chain ${table} ${name} {${printBase(chain)} }`)
    fill.push(...rules)
  }
  for (const name of current.chains.keys())
    if (!wanted.chains.has(name)) {
      empty.push(`flush chain ${table} ${name}`)
      drop.push(`delete chain ${table} ${name}`)
    }
  return lines
}

/** The changes of sets and maps. */
function elementChanges(current: NftTable, wanted: NftTable): PhasedLines {
  const table = nftTitle(wanted)
  const lines: PhasedLines = { make: [], empty: [], fill: [], drop: [] }
  const { make, empty, fill, drop } = lines
  const [there, frames] = [framesOf(current), framesOf(wanted)]
  for (const [name, frame] of frames) {
    const old = there.get(name)
    if (!old) make.push(`add ${printFrame(`${table} ${name}`, frame)}}`)
    if (isDynamic(frame)) continue
    const { deleted, added } = changedElements(old, frame)
    for (const items of inGroups(deleted))
      empty.push(`delete element ${table} ${name} { ${items} }`)
    for (const items of inGroups(added)) fill.push(`add element ${table} ${name} { ${items} }`)
  }
  for (const [name, frame] of there)
    if (!frames.has(name)) drop.push(`delete ${'flags' in frame ? 'set' : 'map'} ${table} ${name}`)
  return lines
}

/** Whether rules add the elements of this set, which a change of the table keeps. */
const isDynamic = (frame: NftSet | NftMap): boolean =>
  'flags' in frame && frame.flags.includes('dynamic')

/** The elements to delete, as a script names them (those of a map by key), and those to add. */
function changedElements(
  current: NftSet | NftMap | undefined,
  wanted: NftSet | NftMap,
): { deleted: string[]; added: string[] } {
  const before = new Set(current && elementLines(current))
  const after = new Set(elementLines(wanted))
  const gone = [...before].filter((item) => !after.has(item))
  return {
    deleted: gone.map((item) => item.replace(/ : .*/s, '')),
    added: [...after].filter((item) => !before.has(item)),
  }
}

const ELEMENTS_PER_LINE = 100

const inGroups = (items: readonly string[]): string[] =>
  Array.from({ length: Math.ceil(items.length / ELEMENTS_PER_LINE) }, (_, index) =>
    items.slice(index * ELEMENTS_PER_LINE, (index + 1) * ELEMENTS_PER_LINE).join(', '),
  )

/**
 * Characters of a script whose transaction fits into the send buffer of a netlink socket (twice
 * net.core.wmem_max, 416 KiB by default). Only root of the machine can enlarge it (SO_SNDBUFFORCE),
 * not root of a user namespace. A rule takes five times its text.
 */
const TRANSACTION_LENGTH = 40_000

/**
 * Prints the scripts for `nft -f` that change `current` into `wanted`: one, unless its transaction
 * would be too large for the kernel. Chains, sets and maps come first, so that later scripts refer
 * only to what exists.
 * @param current undefined if the table does not exist, or is to be replaced
 */
export function printNftTransactions(
  current: NftTable | undefined,
  wanted: NftTable,
  rewrite = false,
): string[] {
  const table = nftTitle(wanted)
  const nothing: NftTable = { ...wanted, chains: new Map(), sets: new Map(), maps: new Map() }
  const replace = [`add table ${table}`, `delete table ${table}`, `add table ${table}`]
  const lines =
    current && isSameFrame(current, wanted)
      ? changesOf(current, wanted, rewrite)
      : [...replace, ...changesOf(nothing, wanted)]
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
export const printNftTable = (table: NftTable): string =>
  printNftTransactions(undefined, table).join('')

/**
 * Whether the properties that a transaction can't change are equal: hooks of chains, types of sets
 * and maps.
 */
function isSameFrame(current: NftTable, wanted: NftTable): boolean {
  const declarations = ({ chains, ...table }: NftTable) =>
    new Map([
      ...[...chains].map(([name, chain]) => [`chain ${name}`, printBase(chain)] as const),
      ...[...framesOf(table)].map(([name, frame]) => [name, printFrame(name, frame)] as const),
    ])
  const now = declarations(wanted)
  return [...declarations(current)].every(
    ([name, declaration]) => (now.get(name) ?? declaration) === declaration,
  )
}
