import { idOf } from '../entry-id.ts'
import type { Chain, Rule, Ruleset, Table } from '../iptables-save.ts'
import type { OriginRecorder, Origins, PortOrigins } from './origins.ts'
import { commented } from './rule-text.ts'

type TableName = 'nat' | 'filter' | 'mangle'

const BUILT_IN: Record<TableName, readonly string[]> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
}

/** True for a built-in chain of that table. */
export const isBuiltIn = (table: string, chain: string): boolean =>
  table in BUILT_IN && BUILT_IN[table as TableName].includes(chain)

/** Builds the chains of one table. */
export class TableBuilder {
  readonly table: Table = new Map()
  readonly #name: TableName
  readonly #origins: OriginRecorder | undefined

  /** @param origins records what the rules and chains come from that are added with origins */
  constructor(name: TableName, origins?: OriginRecorder) {
    this.#name = name
    this.#origins = origins
    for (const chain of BUILT_IN[name])
      this.table.set(chain, { name: chain, policy: 'ACCEPT', rules: [] })
  }

  /** Whether origins are recorded; where there are most rules, they are computed only then. */
  get isRecorded(): boolean {
    return this.#origins !== undefined
  }

  /**
   * Creates the chain if it does not exist, and returns its rules, to which the caller can append.
   */
  chain(name: string): Rule[] {
    const known = this.table.get(name)
    if (known) return known.rules
    const chain: Chain = { name, policy: '-', rules: [] }
    this.table.set(name, chain)
    return chain.rules
  }

  /** @param from the origins in the current Service port, if the rule is written for one */
  add(chain: string, spec: string, from?: Origins): void {
    this.chain(chain).push({ spec })
    if (from) this.recordRule(chain, spec, from)
  }

  /** Adds a rule that comes from several Service ports. */
  addOf(chain: string, spec: string, origins: readonly PortOrigins[]): void {
    this.add(chain, spec)
    for (const ofPort of origins) this.#origins?.add(idOf.rule(this.#name, chain, spec), ofPort)
  }

  /** Records what a rule comes from. */
  recordRule(chain: string, spec: string, from: Origins): void {
    this.#origins?.record(idOf.rule(this.#name, chain, spec), from)
  }

  /** Records what a chain comes from, if it is created. */
  recordChain(chain: string, from: Origins): void {
    this.#origins?.record(idOf.chain(this.#name, chain), from)
  }

  /**
   * Adds a jump as EnsureRule(Prepend) does, above the earlier ones, and creates the chain that it
   * leads to.
   */
  jump(from: string, to: string, comment = '', matches = ''): void {
    this.chain(to)
    this.chain(from).unshift({
      spec: `${matches}${comment === '' ? '' : commented(comment)}-j ${to}`,
    })
  }

  /** Adds a complete chain. */
  define(name: string, rules: Rule[]): void {
    this.table.set(name, { name, policy: '-', rules })
  }
}

/**
 * The same rules with the chains in the order in which the kernel lists them: built-in chains
 * first, the others by name.
 */
export function inKernelOrder(rules: Ruleset): Ruleset {
  const sorted: Ruleset = new Map()
  for (const [name, table] of rules) {
    const chains = [...table.values()]
    const builtIn = chains.filter((chain) => chain.policy !== '-')
    const own = chains.filter((chain) => chain.policy === '-')
    own.sort((a, b) => (a.name < b.name ? -1 : 1))
    sorted.set(name, new Map([...builtIn, ...own].map((chain) => [chain.name, chain])))
  }
  return sorted
}

export const ruleset = (tables: Partial<Record<TableName, TableBuilder>>): Ruleset =>
  new Map(Object.entries(tables).map(([name, { table }]) => [name, table]))
