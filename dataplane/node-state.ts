import type { Link } from './ip-addr.ts'
import type { Route } from './ip-route.ts'
import type { IpSets } from './ipset-save.ts'
import type { Ruleset } from './iptables-save.ts'
import type { VirtualServer } from './ipvsadm-save.ts'
import type { NftTable } from './nft-table.ts'

/** The state of one node's Service dataplane, read or predicted. */
export interface NodeState {
  iptables: Ruleset
  /** The IPv6 rules, if they were read or predicted beside those of IPv4. */
  ip6tables?: Ruleset
  ipsets: IpSets
  virtualServers: VirtualServer[]
  links: Link[]
  /** kube-proxy's own tables, if they were read or mode nftables was predicted. */
  nftables?: NftTable[]
  /**
   * Tables of other programs, where they were read; what iptables keeps in nf_tables is in
   * `iptables`.
   */
  foreignNftables?: NftTable[]
  /** The main routing table, if it was read; a prediction has none. */
  routes?: Route[]
}
