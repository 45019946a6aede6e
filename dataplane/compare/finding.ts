import type { KubeProxyMode } from '../kube-proxy/config.ts'

/** The place of a finding in a node's state; `nft` is one of kube-proxy's own tables, and `part` for example `map service-ips`. */
export type Where =
  | { table: string; chain: string }
  | { set: string }
  | { virtualServer: string }
  | { link: string }
  | { nft: string; part: string }

/**
 * One difference between the predicted and the actual state: `missing` (only predicted), `stale` (only actual), `wrong` (altered) or
 * `order`. `expected` and `actual` are lines in the format of the node's tools; `text` is a sentence for people.
 */
export interface Finding {
  kind: 'missing' | 'stale' | 'wrong' | 'order'
  where: Where
  expected?: string
  actual?: string
  text: string
  /** It does not belong to kube-proxy, but affects packets for Services. */
  interferes?: true
}

export interface CompareOptions {
  /** The mode of the prediction; sentences about leftovers of other modes name it. */
  mode: KubeProxyMode
  /** One kube-proxy in one mode wrote the node's state. After a switch of the mode, another order of the jumps is equally correct. */
  untouched?: boolean
}

/**
 * The finding about a whole object if only one side has it.
 * @param show the object in the format of the node's tool, and its size such as ` (3 rules)`
 * @param reason why a stale object should not be there, to follow the sentence
 */
export function onlyOnOneSide<Thing>(
  where: Where,
  title: string,
  { wanted, found }: { wanted: Thing | undefined; found: Thing | undefined },
  show: (thing: Thing) => { line: string; size?: string },
  reason = '',
): Finding[] {
  if (wanted && !found) {
    const { line, size = '' } = show(wanted)
    return [{ kind: 'missing', where, expected: line, text: `${title} is missing${size}` }]
  }
  if (!found || wanted) return []
  const { line, size = '' } = show(found)
  return [{ kind: 'stale', where, actual: line, text: `${title} is stale${size}${reason}` }]
}

/** The findings about members (of sets, maps, links) that only one side has; `lineOf` prints one as the node's tool does. */
export function compareMembers(
  where: Where,
  title: string,
  noun: string,
  { expected, actual }: { expected: ReadonlySet<string>; actual: ReadonlySet<string> },
  lineOf = (member: string) => member,
): Finding[] {
  const missing = [...expected].filter((member) => !actual.has(member))
  const stale = [...actual].filter((member) => !expected.has(member))
  return [
    ...missing.map((member): Finding => {
      return { kind: 'missing', where, expected: lineOf(member), text: `${title}: missing ${noun} ${member}` }
    }),
    ...stale.map((member): Finding => {
      return { kind: 'stale', where, actual: lineOf(member), text: `${title}: stale ${noun} ${member}` }
    }),
  ]
}

/** `1 rule`, `2 addresses`. */
export const counted = (count: number, noun: string): string =>
  `${count} ${count === 1 ? noun : `${noun}${noun.endsWith('s') ? 'es' : 's'}`}`

/** The items by key, in their order; items without a key are left out. */
export function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string | undefined): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    if (key === undefined) continue
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

/** The values of two maps by key. */
export const pairsOf = <Value>(expected: ReadonlyMap<string, Value>, actual: ReadonlyMap<string, Value>) =>
  [...new Set([...expected.keys(), ...actual.keys()])].map((key) => {
    return { key, wanted: expected.get(key), found: actual.get(key) }
  })

/** Whether both contain the same texts in the same order. */
export function sameSequence(expected: readonly string[], actual: readonly string[]): boolean {
  return expected.length === actual.length && expected.every((text, index) => text === actual[index])
}

/** The texts that only one of two multisets contains, with their multiplicity. */
export function multisetDifference(
  expected: readonly string[],
  actual: readonly string[],
): { missing: string[]; stale: string[] } {
  const surplus = new Map<string, number>()
  for (const text of actual) surplus.set(text, (surplus.get(text) ?? 0) + 1)
  const missing: string[] = []
  for (const text of expected) {
    const count = surplus.get(text) ?? 0
    if (count === 0) missing.push(text)
    else surplus.set(text, count - 1)
  }
  const stale: string[] = []
  // From the end, because the kernel never reaches the second of two equal rules.
  for (let at = actual.length - 1; at >= 0 && surplus.size > 0; at--) {
    const text = actual[at] ?? ''
    const count = surplus.get(text) ?? 0
    if (count > 0) {
      stale.unshift(text)
      surplus.set(text, count - 1)
    }
  }
  return { missing, stale }
}

/**
 * The smallest number of texts of `actual` that must be moved to get the order of `expected`: those outside the longest
 * increasing subsequence of expected positions. Both must contain the same texts. O(n log n).
 */
export function misplaced(expected: readonly string[], actual: readonly string[]): string[] {
  const positions = new Map<string, number[]>()
  for (let index = expected.length - 1; index >= 0; index--) {
    const text = expected[index] ?? ''
    const list = positions.get(text)
    if (list) list.push(index)
    else positions.set(text, [index])
  }
  const order = actual.map((text) => positions.get(text)?.pop() ?? -1)
  const kept = longestIncreasing(order)
  return actual.filter((_, index) => !kept.has(index))
}

/** The indexes of one longest strictly increasing subsequence (patience sorting). */
function longestIncreasing(values: readonly number[]): Set<number> {
  const tails: number[] = []
  const before: number[] = []
  values.forEach((value, index) => {
    let low = 0
    let high = tails.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((values[tails[middle] ?? 0] ?? 0) < value) low = middle + 1
      else high = middle
    }
    before[index] = low === 0 ? -1 : (tails[low - 1] ?? -1)
    tails[low] = index
  })
  const kept = new Set<number>()
  for (let index = tails.at(-1) ?? -1; index >= 0; index = before[index] ?? -1) kept.add(index)
  return kept
}
