import type { KubeProxyMode } from '../kube-proxy/config.ts'

/** Where in a node's state a finding is; `nft` is one of kube-proxy's own tables, `part` such as `map service-ips`. */
export type Where =
  | { table: string; chain: string }
  | { set: string }
  | { virtualServer: string }
  | { link: string }
  | { nft: string; part: string }

/**
 * One difference between what should be there and what is: `missing` (expected only), `stale` (there, expected by nothing),
 * `wrong` (there, but altered) or `order` (the right rules in the wrong sequence). `expected` and `actual` are the lines
 * as the node's tools print them; `text` is one sentence for people.
 */
export interface Finding {
  kind: 'missing' | 'stale' | 'wrong' | 'order'
  where: Where
  expected?: string
  actual?: string
  text: string
  /** Not kube-proxy's, but it decides what becomes of Service packets. */
  interferes?: true
}

export interface CompareOptions {
  /** The mode the prediction was made for; it is named in the sentences about what the other mode left behind. */
  mode: KubeProxyMode
  /**
   * One kube-proxy in one mode has made what the node holds: then its jumps in built-in chains have its own order. Elsewhere
   * a change of the mode, or a jump lost and made again, leaves another one that is as good.
   */
  untouched?: boolean
  /** Things of kube-proxy's kind that belong to another program and are ignored (both ways). */
  foreign?: (where: Where) => boolean
}

/**
 * Chains with kube-proxy's prefix that are the kubelet's alone, in every table.
 * Source: kubelet since 1.17 (canary) and 1.23 (hint).
 */
const KUBELET_CHAINS = new Set(['KUBE-KUBELET-CANARY', 'KUBE-IPTABLES-HINT'])

/**
 * Chains that kubelet and kube-proxy both write: what is missing there is kube-proxy's matter, what is more is not
 * (kubelet up to 1.26: nat KUBE-MARK-DROP and filter KUBE-FIREWALL; later only the latter).
 */
const SHARED_CHAINS = new Set(['nat KUBE-MARK-DROP', 'filter KUBE-FIREWALL'])

/** Whether kube-proxy writes this chain; everything else in the table belongs to others (KIND-, DOCKER_, CNI-, ts-, …). */
export function isKubeProxyChain(chain: string): boolean {
  return chain.startsWith('KUBE-') && !KUBELET_CHAINS.has(chain)
}

/** Whether the kubelet may have put more into this chain than kube-proxy did. */
export function isSharedChain(table: string, chain: string): boolean {
  return SHARED_CHAINS.has(`${table} ${chain}`)
}

/** Whether kube-proxy makes sets of this name. */
export function isKubeProxySet(name: string): boolean {
  return name.startsWith('KUBE-')
}

/** The link that IPVS mode binds Service addresses to. */
export const IPVS_LINK = 'kube-ipvs0'

/** Whether both hold the same texts in the same sequence. */
export function sameSequence(expected: readonly string[], actual: readonly string[]): boolean {
  return expected.length === actual.length && expected.every((text, index) => text === actual[index])
}

/** What is in one multiset and not in the other; repeated texts count as often as they occur. */
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
  // From the end: of a rule listed twice, the kernel never reaches the second.
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
