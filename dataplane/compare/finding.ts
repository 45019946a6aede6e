import type { KubeProxyMode } from '../kube-proxy/config.ts'
/** Where in a node's state a finding stands; `nft` is one of kube-proxy's own tables, `part` such as `map service-ips`. */
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
   * One kube-proxy in one mode has made what the node holds: then its jumps in built-in chains stand in its own order. Elsewhere
   * a change of the mode, or a jump lost and made again, leaves another one that is as good.
   */
  untouched?: boolean
  /** Things of kube-proxy's kind that are nevertheless somebody else's, to be left out (both ways). */
  foreign?: (where: Where) => boolean
}
