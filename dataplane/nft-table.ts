/** One rule in the words in which `nft list` prints it, without its comment. */
export interface NftRule {
  text: string
  comment?: string
}

/** A chain that the kernel itself runs at one of its hooks. */
export interface NftHook {
  type: string
  hook: string
  /** -110 for `dstnat - 10`, -100 for `dstnat`, 0 for `filter`, 100 for `srcnat`. */
  priority: number
  /** Absent where it accepts. */
  policy?: 'drop'
}

export interface NftChain {
  /** Absent for a chain that only rules lead to. */
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

/** One table of nf_tables: all that a program owns there has a place of its own, apart from everybody else's. */
export interface NftTable {
  family: 'ip' | 'ip6'
  name: string
  chains: Map<string, NftChain>
  sets: Map<string, NftSet>
  maps: Map<string, NftMap>
}

/** The name of kube-proxy's own table, one in family ip and one in family ip6. */
export const KUBE_PROXY_TABLE = 'kube-proxy'

const braces = (items: Iterable<string>): string => {
  const list = [...items]
  return list.length > 0 ? `elements = { ${list.join(', ')} }; ` : ''
}

function printSet(name: string, { type, flags, timeout, elements }: NftSet): string {
  const options = [flags.length > 0 ? `flags ${flags.join(',')}; ` : '', timeout ? `timeout ${timeout}s; ` : '']
  return `set ${name} { type ${type}; ${options.join('')}${braces(elements)}}`
}

/**
 * Prints a table as a script that `nft -f` takes, and that replaces a table of the same name: chains before the maps that lead
 * to them, rules at last.
 */
export function printNftTable({ family, name, chains, sets, maps }: NftTable): string {
  const table = `${family} ${name}`
  const lines = [`add table ${table}`, `delete table ${table}`, `table ${table} {`]
  for (const [chain, { base }] of chains) {
    const policy = base?.policy ? ` policy ${base.policy};` : ''
    const hook = base ? ` type ${base.type} hook ${base.hook} priority ${base.priority};${policy}` : ''
    lines.push(`  chain ${chain} {${hook} }`)
  }
  for (const [set, definition] of sets) lines.push(`  ${printSet(set, definition)}`)
  for (const [map, { type, elements }] of maps) {
    const pairs = [...elements].map(([key, value]) => `${key} : ${value}`)
    lines.push(`  map ${map} { type ${type} : verdict; ${braces(pairs)}}`)
  }
  lines.push('}')
  for (const [chain, { rules }] of chains)
    for (const { text, comment } of rules)
      lines.push(`add rule ${table} ${chain} ${text}${comment === undefined ? '' : ` comment "${comment}"`}`)
  return `${lines.join('\n')}\n`
}
