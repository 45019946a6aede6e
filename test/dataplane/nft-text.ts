// Tables in the text of `nft list table`, which most recordings of mode nftables have instead of
// JSON.

import type { NftChain, NftHook, NftMap, NftSet, NftTable } from '../../dataplane/nft-table.ts'

const PRIORITIES: Record<string, number> = { dstnat: -100, filter: 0, srcnat: 100 }

/** `dstnat - 10`, `filter`, `-110` */
function priorityOf(text: string): number {
  const [, name, sign, offset] = /^(\w+)(?: ([-+]) (\d+))?$/.exec(text) ?? []
  const base = name === undefined ? undefined : PRIORITIES[name]
  return base === undefined ? Number(text) : base + Number(`${sign ?? ''}${offset ?? 0}`)
}

const UNITS = { d: 86_400, h: 3600, m: 60, s: 1 }

/** `1h30m` in seconds. */
const secondsOf = (text: string): number =>
  [...text.matchAll(/(\d+)([dhms])/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNITS[unit as keyof typeof UNITS],
    0,
  )

function readChain(lines: readonly string[]): NftChain {
  const chain: NftChain = { rules: [] }
  for (const line of lines) {
    if (line.startsWith('comment ')) continue
    const [, type, hook, priority] =
      /^type (\w+) hook (\w+) priority ([^;]+); policy accept;$/.exec(line) ?? []
    if (type !== undefined && hook !== undefined && priority !== undefined) {
      const base: NftHook = { type, hook, priority: priorityOf(priority) }
      chain.base = base
      continue
    }
    const [, text = '', comment] = /^(.*?)(?: comment "([^"]*)")?$/.exec(line) ?? []
    chain.rules.push(comment === undefined ? { text } : { text, comment })
  }
  return chain
}

function readElements(body: string): string[] {
  const [, list = ''] = /elements = \{(.*?)\}\s*$/s.exec(body) ?? []
  return list
    .split(/,\s*/)
    .map((element) => element.trim().replace(/ comment "[^"]*"/, ''))
    .filter((element) => element !== '')
}

function readSet(lines: readonly string[], body: string): NftSet {
  const option = (name: string) =>
    lines.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1)
  const timeout = option('timeout')
  const flags = option('flags')?.split(',') ?? []
  const set = { type: option('type') ?? '', flags, elements: new Set(readElements(body)) }
  return timeout === undefined ? set : { ...set, timeout: secondsOf(timeout) }
}

function readMap(lines: readonly string[], body: string): NftMap {
  const type =
    /^type (.*) : verdict$/.exec(lines.find((line) => line.startsWith('type ')) ?? '')?.[1] ?? ''
  const pairs = readElements(body).map((element): [string, string] => {
    const [key = '', verdict = ''] = element.split(' : ')
    return [key, verdict]
  })
  return { type, elements: new Map(pairs) }
}

/** Reads the text of `nft list table ip kube-proxy`. */
export function readNftText(text: string): NftTable {
  const [, family, name] = /^table (ip6?) (\S+) \{$/m.exec(text) ?? []
  if ((family !== 'ip' && family !== 'ip6') || name === undefined)
    throw new Error('this is not a listing of a table')
  const table: NftTable = { family, name, chains: new Map(), sets: new Map(), maps: new Map() }
  for (const [, kind, called = '', body = ''] of text.matchAll(
    /^\t(chain|set|map) (\S+) \{\n(.*?)^\t\}$/gms,
  )) {
    const lines = body
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
    if (kind === 'chain') table.chains.set(called, readChain(lines))
    else if (kind === 'set') table.sets.set(called, readSet(lines, body))
    else table.maps.set(called, readMap(lines, body))
  }
  return table
}
