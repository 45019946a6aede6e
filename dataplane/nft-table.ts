/** One rule as `nft list` prints it, without its comment. */
export interface NftRule {
  text: string
  comment?: string
}

/** The hook of a base chain. */
export interface NftHook {
  type: string
  hook: string
  /** -110 for `dstnat - 10`, -100 for `dstnat`, 0 for `filter`, 100 for `srcnat`. */
  priority: number
  /** Absent for policy accept. */
  policy?: 'drop'
}

export interface NftChain {
  /** Absent for a regular chain. */
  base?: NftHook
  rules: NftRule[]
}

export interface NftSet {
  /** `ipv4_addr . inet_proto . inet_service` */
  type: string
  flags: string[]
  /** Seconds. */
  timeout?: number
  /** `10.96.0.1`, `10.96.0.1 . tcp . 443` */
  elements: Set<string>
}

export interface NftMap {
  /** Of the key. */
  type: string
  /** Key → `goto service-…`, `drop`. */
  elements: Map<string, string>
}

/** One table of nf_tables. Each program has its own tables. */
export interface NftTable {
  family: 'ip' | 'ip6' | 'inet'
  name: string
  /** Its base chains are registered at no hook (nft(8), flag `dormant`). */
  dormant?: true
  chains: Map<string, NftChain>
  sets: Map<string, NftSet>
  maps: Map<string, NftMap>
}

/** A rule with its comment, as one line of `nft list`. */
export const nftRuleLine = (text: string, comment?: string): string =>
  comment === undefined ? text : `${text} comment "${comment}"`

/** `ip kube-proxy`, as commands and traces name a table. */
export const nftTitle = ({ family, name }: Pick<NftTable, 'family' | 'name'>): string =>
  `${family} ${name}`

/** The name of kube-proxy's own table, one in family ip and one in family ip6. */
export const KUBE_PROXY_TABLE = 'kube-proxy'
