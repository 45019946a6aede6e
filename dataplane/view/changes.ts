/** One entry of one node that was added or removed, or whose text or children's order changed. Counters are no change. */
export interface Change {
  node: string
  /** The id of the entry (holdings.ts). */
  id: string
  /** Where it is, for people: `nat KUBE-SERVICES`, `set KUBE-CLUSTER-IP`, `IPVS`. */
  place: string
  change: 'added' | 'removed' | 'changed'
  text: string
  /** The text before, of a changed entry. */
  before?: string
}
