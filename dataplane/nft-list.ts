// Output of `nft -j list ruleset` and `nft -j list table …`: libnftables-json(5).

import { z } from 'zod'
import { expression, ruleText, statement, TooDeep } from './nft-expression.ts'
import type { NftChain, NftMap, NftSet, NftTable } from './nft-table.ts'
import { ParseError, parseJson } from './parse-error.ts'

const SOURCE = 'nft -j list'

/** nf_tables' own limit of a name is 256 bytes. */
const name = z.string().min(1).max(256)
const family = z.string().max(16)
const inTable = { family, table: name }
const oneOrMore = z.union([z.string(), z.array(z.string()).max(16)])

const tableSchema = z.object({ family, name })
const chainSchema = z.object({
  ...inTable,
  name,
  type: z.string().max(32).optional(),
  hook: z.string().max(32).optional(),
  prio: z.number().int().optional(),
  policy: z.string().max(16).optional(),
})
const ruleSchema = z.object({ ...inTable, chain: name, comment: z.string().optional(), expr: z.array(z.unknown()) })
const setSchema = z.object({
  ...inTable,
  name,
  type: oneOrMore.optional(),
  flags: oneOrMore.optional(),
  timeout: z.number().int().min(0).optional(),
  elem: z.array(z.unknown()).optional(),
})
const mapSchema = z.object({ ...inTable, name, type: oneOrMore.optional(), elem: z.array(z.unknown()).optional() })
const itemSchema = z.object({
  table: tableSchema.optional(),
  chain: chainSchema.optional(),
  rule: ruleSchema.optional(),
  set: setSchema.optional(),
  map: mapSchema.optional(),
})
const listingSchema = z.object({ nftables: z.array(itemSchema) })

type Item = z.infer<typeof itemSchema>

const words = (value: string | string[] | undefined, between: string): string =>
  Array.isArray(value) ? value.join(between) : (value ?? '')
const list = (value: string | string[] | undefined): string[] => (Array.isArray(value) ? value : value ? [value] : [])

/**
 * Reads the tables of families ip, ip6 and inet from a JSON listing of nft, with rules in nft syntax. Other families and unknown
 * objects are ignored. Throws ParseError if the text is not such a listing.
 */
export function parseNftList(text: string): NftTable[] {
  const { nftables } = parseJson(SOURCE, text, listingSchema, 'nft -j list table ip kube-proxy')
  try {
    return readItems(nftables)
  } catch (error) {
    if (!(error instanceof TooDeep)) throw error
    throw new ParseError(SOURCE, 1, text.slice(0, 80), 'an expression is nested too deeply')
  }
}

function readItems(items: readonly Item[]): NftTable[] {
  const tables = new Map<string, NftTable>()
  const tableOf = (of: string, called: string): NftTable | undefined => {
    if (of !== 'ip' && of !== 'ip6' && of !== 'inet') return undefined
    const key = `${of} ${called}`
    const known = tables.get(key)
    if (known) return known
    const table = { family: of, name: called, chains: new Map(), sets: new Map(), maps: new Map() } as const
    tables.set(key, table)
    return table
  }
  for (const { table, chain, rule, set, map } of items) {
    if (table) tableOf(table.family, table.name)
    if (chain) tableOf(chain.family, chain.table)?.chains.set(chain.name, readChain(chain))
    if (set) tableOf(set.family, set.table)?.sets.set(set.name, readSet(set))
    if (map) tableOf(map.family, map.table)?.maps.set(map.name, readMap(map))
    if (!rule) continue
    const line = { text: ruleText(rule.expr), ...(rule.comment === undefined ? {} : { comment: rule.comment }) }
    tableOf(rule.family, rule.table)?.chains.get(rule.chain)?.rules.push(line)
  }
  return [...tables.values()]
}

function readChain({ type, hook, prio, policy }: z.infer<typeof chainSchema>): NftChain {
  if (type === undefined || hook === undefined || prio === undefined) return { rules: [] }
  return { base: { type, hook, priority: prio, ...(policy === 'drop' && { policy }) }, rules: [] }
}

function readSet({ type, flags, timeout, elem = [] }: z.infer<typeof setSchema>): NftSet {
  const set = { type: words(type, ' . '), flags: list(flags), elements: new Set(elem.map((one) => expression(one))) }
  return timeout === undefined ? set : { ...set, timeout }
}

function readMap({ type, elem = [] }: z.infer<typeof mapSchema>): NftMap {
  const pairs = elem.filter(Array.isArray).map(([key, value]): [string, string] => [expression(key), statement(value)])
  return { type: words(type, ' . '), elements: new Map(pairs) }
}
