import type { KubeProxyMode } from '../kube-proxy/config.ts'

/**
 * The place of a difference in a node's state; `family` is set for rules of ip6tables only; `nft`
 * is one of kube-proxy's own tables, and `part` for example `map service-ips`.
 */
export type Where =
  | { table: string; chain: string; family?: 'ipv6' }
  | { set: string }
  | { virtualServer: string }
  | { link: string }
  | { nft: string; part: string }

/**
 * One difference between the predicted and the actual state: `missing` (only predicted), `stale`
 * (only actual), `wrong` (altered) or `order`. `expected` and `actual` are lines in the format of
 * the node's tools; `text` is a sentence for people.
 */
export interface Difference {
  kind: 'missing' | 'stale' | 'wrong' | 'order'
  where: Where
  expected?: string
  actual?: string
  text: string
  /** It does not belong to kube-proxy, but affects packets for Services. */
  interferes?: true
}

/**
 * What a failure, a report and the page show of a difference: everything but its place, which
 * `text` names.
 */
export type DifferenceText = Pick<Difference, 'kind' | 'text' | 'expected' | 'actual'>

export interface CompareOptions {
  /** The mode of the prediction; sentences about leftovers of other modes name it. */
  mode: KubeProxyMode
  /**
   * One kube-proxy in one mode wrote the node's state. After a switch of the mode, another order of
   * the jumps is equally correct.
   */
  untouched?: boolean
}

/**
 * The difference about a whole object if only one side has it.
 * @param show the object in the format of the node's tool, and its size such as ` (3 rules)`
 * @param reason why a stale object should not be there, to follow the sentence
 */
export function onlyOnOneSide<Thing>(
  where: Where,
  title: string,
  { wanted, found }: { wanted: Thing | undefined; found: Thing | undefined },
  show: (thing: Thing) => { line: string; size?: string },
  reason = '',
): Difference[] {
  if (wanted && !found) {
    const { line, size = '' } = show(wanted)
    return [{ kind: 'missing', where, expected: line, text: `${title} is missing${size}` }]
  }
  if (!found || wanted) return []
  const { line, size = '' } = show(found)
  return [{ kind: 'stale', where, actual: line, text: `${title} is stale${size}${reason}` }]
}

/**
 * The differences about members (of sets, maps, links) that only one side has; `lineOf` prints one
 * as the node's tool does.
 */
export function compareMembers(
  where: Where,
  title: string,
  noun: string,
  { expected, actual }: { expected: ReadonlySet<string>; actual: ReadonlySet<string> },
  lineOf = (member: string) => member,
): Difference[] {
  const missing = [...expected].filter((member) => !actual.has(member))
  const stale = [...actual].filter((member) => !expected.has(member))
  return [
    ...missing.map((member): Difference => {
      return {
        kind: 'missing',
        where,
        expected: lineOf(member),
        text: `${title}: missing ${noun} ${member}`,
      }
    }),
    ...stale.map((member): Difference => {
      return {
        kind: 'stale',
        where,
        actual: lineOf(member),
        text: `${title}: stale ${noun} ${member}`,
      }
    }),
  ]
}

/** `1 rule`, `2 addresses`. */
export const counted = (count: number, noun: string): string =>
  `${count} ${count === 1 ? noun : `${noun}${noun.endsWith('s') ? 'es' : 's'}`}`
