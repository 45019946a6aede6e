import type { Link } from './ip-addr.ts'
import type { Route } from './ip-route.ts'
import type { IpSets } from './ipset-save.ts'
import type { Ruleset } from './iptables-save.ts'
import type { VirtualServer } from './ipvsadm-save.ts'

/** All that one node's Service dataplane holds, read or predicted. */
export interface NodeState {
  iptables: Ruleset
  ipsets: IpSets
  virtualServers: VirtualServer[]
  links: Link[]
  /** The main routing table, where it was read: a prediction has none. */
  routes?: Route[]
}
