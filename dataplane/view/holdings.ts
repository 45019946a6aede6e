/** What a node holds, as a tree that can be sent as JSON. Ids are stable from one snapshot to the next and unique on a node. */
export interface NodeHoldings {
  node: string
  /** The mode that its kube-proxy reports. */
  mode?: string
  /** Why the node could not be read; then `groups` is empty. */
  trouble?: string
  groups: Entry[]
}

export type EntryKind =
  | 'group'
  | 'table'
  | 'chain'
  | 'rule'
  | 'set'
  | 'member'
  | 'virtual server'
  | 'real server'
  | 'link'
  | 'address'
  | 'map'
  | 'element'
  | 'connection'

export interface Entry {
  /** Such as `iptables/nat/KUBE-SERVICES`; a rule's id contains its text and not its line number. */
  id: string
  kind: EntryKind
  /** As the node's own tool prints it. */
  text: string
  /** The id of the chain that a rule jumps or goes to, of the set that it matches, or of the map that it looks up. */
  refersTo?: string[]
  packets?: number
  /** Live connections of a virtual or real server. */
  connections?: { active: number; inactive: number }
  children?: Entry[]
}
