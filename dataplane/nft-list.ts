// Output of `nft -j list ruleset` and `nft -j list table …` (libnftables-json(5)). Rules and
// elements are converted to the syntax of `nft list`, for the statements and expressions that
// kube-proxy writes; others are printed as JSON, because such a rule must differ from every
// predicted one.

import * as z from 'zod'
import { PROTOCOL_NUMBERS } from './ip-address.ts'
import { anonymousSetText } from './nft-addresses.ts'
import type { NftChain, NftMap, NftSet, NftTable } from './nft-table.ts'
import { ParseError, parseJson } from './program-output.ts'

const SOURCE = 'nft -j list'

/** nf_tables' own limit of a name is 256 bytes. */
const name = z.string().min(1).max(256)
const family = z.string().max(16)
const inTable = { family, table: name }
const oneOrMore = z.union([z.string(), z.array(z.string()).max(16)])

const tableSchema = z.object({ family, name, flags: oneOrMore.optional() })
const chainSchema = z.object({
  ...inTable,
  name,
  type: z.string().max(32).optional(),
  hook: z.string().max(32).optional(),
  prio: z.number().int().optional(),
  policy: z.string().max(16).optional(),
})
const ruleSchema = z.object({
  ...inTable,
  chain: name,
  comment: z.string().optional(),
  expr: z.array(z.unknown()),
})
const setSchema = z.object({
  ...inTable,
  name,
  type: oneOrMore.optional(),
  flags: oneOrMore.optional(),
  timeout: z.number().int().min(0).optional(),
  elem: z.array(z.unknown()).optional(),
})
const mapSchema = z.object({
  ...inTable,
  name,
  type: oneOrMore.optional(),
  elem: z.array(z.unknown()).optional(),
})
const itemSchema = z.object({
  table: tableSchema.optional(),
  chain: chainSchema.optional(),
  rule: ruleSchema.optional(),
  set: setSchema.optional(),
  map: mapSchema.optional(),
})
const listingSchema = z.object({ nftables: z.array(itemSchema) })

type ListingItem = z.infer<typeof itemSchema>

const list = (value: string | string[] | undefined): string[] =>
  Array.isArray(value) ? value : value ? [value] : []

/**
 * Reads the tables of families ip, ip6 and inet from a JSON listing of nft, with rules in nft
 * syntax. Other families and unknown objects are ignored. Throws ParseError if the text is not such
 * a listing.
 */
export function parseNftList(text: string): NftTable[] {
  const { nftables } = parseJson(SOURCE, text, listingSchema, 'nft -j list table ip kube-proxy')
  const fail = (fault: string) => new ParseError(SOURCE, 1, text.slice(0, 80), fault)
  if (isDeeper(nftables, DEEPEST)) throw fail('an expression is nested too deeply')
  try {
    return readTables(nftables)
  } catch (error) {
    // An operand of another type than nft prints, such as an object in place of a list.
    if (!(error instanceof TypeError)) throw error
    throw fail('an expression is not of the form that nft prints')
  }
}

/** Deeper than any rule of kube-proxy; nft itself does not print deeper nesting. */
const DEEPEST = 64

const isDeeper = (value: unknown, limit: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (limit === 0 || Object.values(value).some((inner) => isDeeper(inner, limit - 1)))

function readTables(items: readonly ListingItem[]): NftTable[] {
  const tables = new Map<string, NftTable>()
  const tableOf = (of: string, called: string): NftTable | undefined => {
    if (of !== 'ip' && of !== 'ip6' && of !== 'inet') return undefined
    const key = `${of} ${called}`
    const known = tables.get(key)
    if (known) return known
    const table = {
      family: of,
      name: called,
      chains: new Map(),
      sets: new Map(),
      maps: new Map(),
    } as const
    tables.set(key, table)
    return table
  }
  for (const { table, chain, rule, set, map } of items) {
    const own = table && tableOf(table.family, table.name)
    if (own && list(table.flags).includes('dormant')) own.dormant = true
    if (chain) tableOf(chain.family, chain.table)?.chains.set(chain.name, readChain(chain))
    if (set) tableOf(set.family, set.table)?.sets.set(set.name, readSet(set))
    if (map) tableOf(map.family, map.table)?.maps.set(map.name, readMap(map))
    if (!rule) continue
    const line = {
      text: ruleText(rule.expr),
      ...(rule.comment === undefined ? {} : { comment: rule.comment }),
    }
    tableOf(rule.family, rule.table)?.chains.get(rule.chain)?.rules.push(line)
  }
  return [...tables.values()]
}

function readChain({ type, hook, prio, policy }: z.infer<typeof chainSchema>): NftChain {
  if (type === undefined || hook === undefined || prio === undefined) return { rules: [] }
  return { base: { type, hook, priority: prio, ...(policy === 'drop' && { policy }) }, rules: [] }
}

function readSet({ type, flags, timeout, elem = [] }: z.infer<typeof setSchema>): NftSet {
  const set = {
    type: list(type).join(' . '),
    flags: list(flags),
    elements: new Set(elem.map((one) => element(one, list(type)))),
  }
  return timeout === undefined ? set : { ...set, timeout }
}

function readMap({ type, elem = [] }: z.infer<typeof mapSchema>): NftMap {
  const pairs = elem
    .filter(Array.isArray)
    .map(([key, value]): [string, string] => [element(key, list(type)), statement(value)])
  return { type: list(type).join(' . '), elements: new Map(pairs) }
}

/** A key of a set or map, whose parts have these types. */
function element(key: unknown, types: readonly string[]): string {
  const value = isNftObject(key) && isNftObject(key.elem) ? key.elem.val : key
  const parts = isNftObject(value) && Array.isArray(value.concat) ? value.concat : [value]
  return parts
    .map((part, at) => expression(part, types[at] === 'inet_proto' ? 'protocol' : 'decimal'))
    .join(' . ')
}

/**
 * nft prints marks with eight hexadecimal digits, and protocols by name; in JSON by number on a
 * node without /etc/protocols.
 */
type Radix = 'decimal' | 'mark' | 'protocol'

type NftObject = Record<string, unknown>

const isNftObject = (value: unknown): value is NftObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const only = (value: NftObject): [string, unknown] | undefined => {
  const keys = Object.keys(value)
  return keys.length === 1 ? [keys[0] as string, value[keys[0] as string]] : undefined
}

function anonymousSet(items: readonly unknown[], radix: Radix): string {
  const texts = items.map((item) => (Array.isArray(item) ? pair(item) : expression(item, radix)))
  return items.some(Array.isArray) ? `{ ${texts.join(', ')} }` : anonymousSetText(texts)
}

const pair = ([key, value]: readonly unknown[]): string =>
  `${expression(key)} : ${isNftObject(value) && isVerdict(value) ? statement(value) : expression(value)}`

const quotedKeys = new Set(['iifname', 'oifname', 'iif', 'oif'])
const verdicts = new Set(['accept', 'drop', 'return', 'continue', 'jump', 'goto'])
const isVerdict = (value: NftObject): boolean => verdicts.has(only(value)?.[0] ?? '')
const word = (value: unknown): string =>
  Array.isArray(value) ? value.map(String).join(',') : String(value)

/** The printer of each kind of expression, by its only key. */
const KINDS: Record<string, (value: never, radix: Radix) => string> = {
  payload: ({ protocol, field, base, offset, len }: NftObject) =>
    protocol === undefined ? `@${base},${offset},${len}` : `${protocol} ${field}`,
  meta: ({ key }: NftObject) => (quotedKeys.has(String(key)) ? String(key) : `meta ${key}`),
  ct: ({ key, dir }: NftObject) => `ct ${dir === undefined ? '' : `${dir} `}${key}`,
  fib: ({ result, flags }: NftObject) =>
    `fib ${Array.isArray(flags) ? flags.join(' . ') : flags} ${result}`,
  numgen: ({ mode, mod, offset }: NftObject) =>
    `numgen ${mode} mod ${mod}${offset ? ` offset ${offset}` : ''}`,
  prefix: ({ addr, len }: NftObject) => `${addr}/${len}`,
  concat: (parts: unknown[], radix) => parts.map((part) => expression(part, radix)).join(' . '),
  set: (items: unknown, radix) => anonymousSet(Array.isArray(items) ? items : [items], radix),
  range: (ends: unknown[], radix) => ends.map((end) => expression(end, radix)).join('-'),
  elem: ({ val }: NftObject, radix) => expression(val, radix),
  map: ({ key, data }: NftObject) => `${expression(key)} map ${expression(data)}`,
}

for (const operator of ['&', '|', '^'])
  KINDS[operator] = (sides: unknown[], radix) =>
    sides.map((side) => expression(side, radix)).join(` ${operator} `)

function expression(value: unknown, radix: Radix = 'decimal'): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' && radix === 'mark')
    return `0x${value.toString(16).padStart(8, '0')}`
  if (typeof value === 'number')
    return (radix === 'protocol' && PROTOCOL_NUMBERS[value]) || `${value}`
  if (Array.isArray(value)) return value.map((item) => expression(item, radix)).join(',')
  if (!isNftObject(value)) return JSON.stringify(value)
  const [kind, inner] = only(value) ?? []
  const print = kind !== undefined && Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined
  const fits = isNftObject(inner) || Array.isArray(inner) || kind === 'set'
  return print && fits ? print(inner as never, radix) : JSON.stringify(value)
}

const isMark = (value: unknown): boolean =>
  JSON.stringify(value)?.includes('{"key":"mark"}') ?? false

function match({ op, left, right }: NftObject): string {
  const key = isNftObject(left) && isNftObject(left.meta) ? String(left.meta.key) : ''
  const radix = isMark(left) ? 'mark' : key === 'l4proto' ? 'protocol' : 'decimal'
  const text = expression(right, radix)
  const value = quotedKeys.has(key) && typeof right === 'string' ? `"${text}"` : text
  const isMasked = isNftObject(left) && '&' in left
  const sign = op === 'in' || (op === '==' && !isMasked) ? '' : `${op} `
  return `${expression(left, radix)} ${sign}${value}`
}

/** `dnat to 10.244.1.6:80`, `redirect to :8080`, `masquerade fully-random`. */
function nat(kind: string, { family, addr, port, flags }: NftObject): string {
  const address = addr === undefined ? '' : expression(addr)
  const host = address.includes(':') && port !== undefined ? `[${address}]` : address
  const to = `${host}${port === undefined ? '' : `:${expression(port)}`}`
  const ofFamily = family === undefined || port !== undefined ? '' : `${family} `
  return [kind, to === '' ? [] : `${ofFamily}to ${to}`, flags === undefined ? [] : word(flags)]
    .flat()
    .join(' ')
}

/**
 * `reject`, or with another reply to the sender than the default, which some versions of nft print
 * and others leave out.
 */
function reject({ type, expr }: NftObject): string {
  if (type === undefined || expr === 'port-unreachable') return 'reject'
  return ['reject with', String(type), expr === undefined ? [] : expression(expr)].flat().join(' ')
}

/**
 * `log prefix "x" group 2`, with its options in the order of nft, which leaves out the default
 * level.
 */
function log({
  prefix,
  group,
  snaplen,
  'queue-threshold': threshold,
  level,
  flags,
}: NftObject): string {
  const options: [name: string, value: unknown][] = [
    ['prefix', prefix === undefined ? undefined : `"${prefix}"`],
    ['group', group],
    ['snaplen', snaplen],
    ['queue-threshold', threshold],
    ['level', level === 'warn' ? undefined : level],
    ['flags', flags === undefined ? undefined : word(flags)],
  ]
  const shown = options.filter(([, value]) => value !== undefined)
  return ['log', ...shown.map(([option, value]) => `${option} ${value}`)].join(' ')
}

/**
 * Without the burst that is the default, as nft prints it; rates and bursts of packets have no unit
 * in JSON.
 */
function limit({
  inv,
  rate,
  rate_unit: rateUnit,
  per,
  burst,
  burst_unit: burstUnit,
}: NftObject): string {
  const tokens = [
    'limit rate',
    inv === true ? 'over' : [],
    rateUnit === undefined ? `${rate}/${per}` : `${rate} ${rateUnit}/${per}`,
  ]
  const isDefault = burst === undefined || burst === (rateUnit === undefined ? 5 : 0)
  return [...tokens, isDefault ? [] : `burst ${burst} ${burstUnit ?? 'packets'}`].flat().join(' ')
}

/**
 * `update @seen { ip saddr timeout 5s limit rate over 10/second }`; an element without its own
 * timeout has the set's.
 */
function updateStatement({ op, elem, set, stmt = [] }: NftObject): string {
  const { timeout } = (isNftObject(elem) && isNftObject(elem.elem) && elem.elem) || {}
  const tokens = [
    expression(elem),
    timeout === undefined ? [] : `timeout ${timeout}s`,
    ruleText(stmt),
  ]
  return `${op} ${set} { ${tokens.flat().join(' ').trimEnd()} }`
}

const WITHOUT_OPTIONS = new Set(['accept', 'drop', 'return', 'continue'])
/** Statements that are complete without options: their value in JSON is then null. */
const OPTIONS_OPTIONAL = new Set(['masquerade', 'notrack', 'redirect', 'reject', 'log'])

function statement(value: unknown): string {
  const [kind, inner] = (isNftObject(value) && only(value)) || []
  if (kind === undefined) return JSON.stringify(value)
  if (WITHOUT_OPTIONS.has(kind)) return kind
  if (!isNftObject(inner)) return OPTIONS_OPTIONAL.has(kind) ? kind : JSON.stringify(value)
  switch (kind) {
    case 'match':
      return match(inner)
    case 'reject':
      return reject(inner)
    case 'log':
      return log(inner)
    case 'jump':
    case 'goto':
      return `${kind} ${inner.target}`
    case 'dnat':
    case 'snat':
    case 'masquerade':
    case 'redirect':
      return nat(kind, inner)
    case 'limit':
      return limit(inner)
    case 'vmap':
      return `${expression(inner.key)} vmap ${expression(inner.data)}`
    case 'mangle':
      return `${expression(inner.key)} set ${expression(inner.value, isMark(inner.key) ? 'mark' : 'decimal')}`
    case 'set':
      return updateStatement(inner)
    default:
      return JSON.stringify(value)
  }
}

/**
 * The statements of a rule as one line of `nft list`, without counters, which do not affect
 * packets.
 */
const ruleText = (statements: unknown): string =>
  (Array.isArray(statements) ? statements : [statements])
    .filter((one) => !(isNftObject(one) && 'counter' in one))
    .map((one) => statement(one))
    .join(' ')
