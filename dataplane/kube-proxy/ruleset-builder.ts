import type { Chain, Rule, Ruleset, Table } from '../iptables-save.ts'

export type TableName = 'nat' | 'filter' | 'mangle'

const BUILT_IN: Record<TableName, readonly string[]> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
}

/** True for a chain that the kernel itself has in that table. */
export const isBuiltIn = (table: string, chain: string): boolean =>
  table in BUILT_IN && BUILT_IN[table as TableName].includes(chain)

/** Grows the chains of one table. */
export class TableBuilder {
  private readonly table: Table = new Map()

  constructor(name: TableName) {
    for (const chain of BUILT_IN[name]) this.table.set(chain, { name: chain, policy: 'ACCEPT', rules: [] })
  }

  /** Makes sure the chain exists, and gives its rules to be added to. */
  chain(name: string): Rule[] {
    const known = this.table.get(name)
    if (known) return known.rules
    const chain: Chain = { name, policy: '-', rules: [] }
    this.table.set(name, chain)
    return chain.rules
  }

  add(chain: string, spec: string): void {
    this.chain(chain).push({ spec })
  }

  /** The table with built-in chains first and the rest by name, as the kernel lists them. */
  sorted(): Table {
    const names = [...this.table.keys()]
    const own = names.filter((name) => this.table.get(name)?.policy === '-').sort()
    const table: Table = new Map()
    for (const name of names) {
      const chain = this.table.get(name)
      if (chain && chain.policy !== '-') table.set(name, chain)
    }
    for (const name of own) table.set(name, this.table.get(name) as Chain)
    return table
  }
}

/** A rule in a built-in chain that leads into one of kube-proxy's. */
export interface Jump {
  table: TableName
  from: string
  to: string
  spec: string
}

/** Adds jumps as EnsureRule(Prepend) leaves them on an empty chain: the last ensured comes first. */
export function prependJumps(tables: Partial<Record<TableName, TableBuilder>>, jumps: readonly Jump[]): void {
  for (const jump of jumps) {
    const table = tables[jump.table]
    table?.chain(jump.to)
    table?.chain(jump.from).unshift({ spec: jump.spec })
  }
}

export const ruleset = (tables: Partial<Record<TableName, TableBuilder>>): Ruleset =>
  new Map(Object.entries(tables).map(([name, table]) => [name, table.sorted()]))
