import type { Family } from '../../ip-address.ts'
import { KUBE_PROXY_TABLE, type NftHook, type NftTable } from '../../nft-table.ts'

/** Builds one family's table in the syntax of `nft list`. */
export class NftTableBuilder {
  readonly table: NftTable
  /** `ip` or `ip6`, as rules write it. */
  readonly ip: 'ip' | 'ip6'
  readonly address: 'ipv4_addr' | 'ipv6_addr'

  constructor(family: Family) {
    this.ip = family === 'ipv4' ? 'ip' : 'ip6'
    this.address = family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
    this.table = { family: this.ip, name: KUBE_PROXY_TABLE, chains: new Map(), sets: new Map(), maps: new Map() }
  }

  chain(name: string, base?: NftHook): void {
    if (!this.table.chains.has(name)) this.table.chains.set(name, base ? { base, rules: [] } : { rules: [] })
  }

  rule(chain: string, text: string, comment?: string): void {
    this.chain(chain)
    this.table.chains.get(chain)?.rules.push(comment === undefined ? { text } : { text, comment })
  }

  set(name: string, type: string, options: { flags?: string[]; timeout?: number } = {}): void {
    const { flags = [], timeout } = options
    const set = { type, flags, elements: new Set<string>() }
    this.table.sets.set(name, timeout === undefined ? set : { ...set, timeout })
  }

  map(name: string, type: string): void {
    this.table.maps.set(name, { type, elements: new Map() })
  }

  member(set: string, element: string): void {
    this.table.sets.get(set)?.elements.add(element)
  }

  entry(map: string, key: string, verdict: string): void {
    this.table.maps.get(map)?.elements.set(key, verdict)
  }
}
