// Lists and maps: grouping, pairing, and what two lists differ in.

/** The items by key, in their order; items without a key are left out. */
export function groupBy<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string | undefined,
): Map<string, Item[]> {
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

/** The values of two maps for one key; `undefined` where a map does not have it. */
interface KeyedPair<Value> {
  key: string
  wanted: Value | undefined
  found: Value | undefined
}

/**
 * The values of two maps by key, one pair at a time: first the keys of `expected`, then those only
 * `actual` has.
 */
export function* pairsOf<Value>(
  expected: ReadonlyMap<string, Value>,
  actual: ReadonlyMap<string, Value>,
): Generator<KeyedPair<Value>, void> {
  for (const [key, wanted] of expected) yield { key, wanted, found: actual.get(key) }
  for (const [key, found] of actual) if (!expected.has(key)) yield { key, wanted: undefined, found }
}

/** Whether both contain the same texts in the same order. */
export function sameSequence(expected: readonly string[], actual: readonly string[]): boolean {
  return (
    expected.length === actual.length && expected.every((text, index) => text === actual[index])
  )
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
 * The smallest number of texts of `actual` that must be moved to get the order of `expected`: those
 * outside the longest increasing subsequence of expected positions. Both must contain the same
 * texts. O(n log n).
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
