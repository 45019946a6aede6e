/** Whether both hold the same texts in the same sequence. */
export function sameSequence(expected: readonly string[], actual: readonly string[]): boolean {
  return expected.length === actual.length && expected.every((text, index) => text === actual[index])
}

/** What is in one multiset and not in the other; repeated texts count as often as they stand. */
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
  // From the end: of a rule that stands twice, the kernel never reaches the second.
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
 * The fewest texts of `actual` that have to move for the sequence to be that of `expected`: those outside the longest
 * increasing run of expected positions. Both must hold the same texts. O(n log n).
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
