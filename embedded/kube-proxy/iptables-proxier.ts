import type { Chain, Ruleset, Table } from '../../dataplane/iptables-save.ts'
import { isServiceChain } from '../../dataplane/kube-proxy/chain-names.ts'
import { isBuiltIn } from '../../dataplane/kube-proxy/ruleset-builder.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { restoreCommand, type StepsResult } from './guest-node.ts'
import { hourMs, Proxier, type SyncChange } from './proxier.ts'
import type { RuleCounts } from './sync-metrics.ts'

const CANARY = 'KUBE-PROXY-CANARY'
/** The exit code of iptables if it could not get the lock (RESOURCE_PROBLEM). */
const resourceProblem = 4

/**
 * iptables mode: a sync that is not full rewrites only chains of changed Services and single ones
 * (MinimizeIPTablesRestore, 1.27).
 */
export class IptablesProxier extends Proxier {
  readonly maxIntervalMs = featuresOf(this.context.version).iptablesPartialSyncs
    ? hourMs
    : this.context.settings.syncPeriodMs
  protected readonly mode = 'iptables'
  protected readonly failure = ['proxier.go:1558', 'Failed to execute iptables-restore'] as const
  #monitor: NodeJS.Timeout | undefined

  async prepare(): Promise<void> {
    const { log, settings } = this.context
    log('I', 'server_linux.go:132', 'Using iptables Proxier')
    // If the machine has ended, the kubelet ends this Pod.
    this.#monitor = setInterval(
      () => this.#checkCanary().catch(() => this.stop()),
      settings.syncPeriodMs,
    )
  }

  protected read(): Promise<NodeState> {
    return this.context.guest.read('iptables', 'links')
  }

  protected write(change: SyncChange): Promise<StepsResult> {
    const [wanted, current] = [change.wanted.iptables, change.current.iptables]
    const input = change.full
      ? fullInput(wanted, current, staleChains(wanted.get('nat'), current.get('nat')))
      : changedInput(wanted, current)
    this.kind = { full: change.full, owned: ownedRules(wanted), written: writtenRules(input) }
    return this.context.guest.apply([{ command: restoreCommand, input }])
  }

  override stop(): void {
    clearInterval(this.#monitor)
  }

  /**
   * Checks whether the tables were flushed: the chain KUBE-PROXY-CANARY is then missing in mangle.
   */
  async #checkCanary(): Promise<void> {
    const { guest, log, request } = this.context
    if (!this.programmed) return
    const { exitCode } = await guest.run(`iptables -w 5 -t mangle -S ${CANARY} >/dev/null 2>&1\n`)
    // kube-proxy ignores that the lock was not available in time (isResourceError).
    if (exitCode === 0 || exitCode === resourceProblem) return
    log('I', 'iptables.go:535', 'iptables canary deleted', { table: 'mangle', chain: CANARY })
    this.programmed = undefined
    request()
  }
}

/**
 * The rules in kube-proxy's own chains; the jumps to these are not counted, as in kube-proxy's
 * metrics.
 */
export function ownedRules(wanted: Ruleset): RuleCounts {
  const count = (name: 'filter' | 'nat') => {
    let rules = 0
    for (const chain of wanted.get(name)?.values() ?? [])
      if (!isBuiltIn(name, chain.name) && !isEnsuredOnly(name, chain.name))
        rules += chain.rules.length
    return rules
  }
  return { filter: count('filter'), nat: count('nat') }
}

/** The rules in an input of iptables-restore. */
export function writtenRules(input: string): RuleCounts {
  const counts = { filter: 0, nat: 0 }
  let table = ''
  for (const line of input.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1)
    else if (line.startsWith('-A ') && (table === 'filter' || table === 'nat')) counts[table]++
  }
  return counts
}

/** Chains of Services that no longer exist. */
const staleChains = (wanted?: Table, current?: Table): string[] =>
  [...(current?.keys() ?? [])].filter((chain) => isServiceChain(chain) && !wanted?.has(chain))

/** Input that rewrites the chains of changed Services and those that exist once per node. */
function changedInput(wanted: Ruleset, programmed: Ruleset): string {
  let input = ''
  for (const [name, table] of wanted) {
    const old = programmed.get(name)
    const isDue = (chain: string) =>
      !isServiceChain(chain) || !sameRules(table.get(chain)?.rules ?? [], old?.get(chain)?.rules)
    const write = new Set([...table.keys()].filter(isDue))
    input += tableInput(name, { wanted: table, write, remove: staleChains(table, old) })
  }
  return input
}

type RuleLines = readonly { spec: string }[]

const sameRules = (one: RuleLines, other: RuleLines | undefined) =>
  one === other ||
  (one.length === other?.length && one.every(({ spec }, index) => spec === other[index]?.spec))

/**
 * Chains that kube-proxy only creates if they are missing: the kubelet writes their rules (up to
 * 1.26), or they have none.
 */
const isEnsuredOnly = (table: string, chain: string) =>
  chain === CANARY || `${table} ${chain}` === 'nat KUBE-MARK-DROP'

export interface TableChange {
  /** The predicted chains. */
  wanted: Table
  /**
   * The rules on the node; undefined if only `write` is to be written and the others are unknown.
   */
  current?: Table
  /** Chains to write; default: all of `wanted`. */
  write?: ReadonlySet<string>
  /** Chains to delete; no written chain jumps to them. */
  remove?: readonly string[]
}

/**
 * Input of `iptables-restore --noflush` that rewrites kube-proxy's own chains of one table in one
 * step, as kube-proxy does: each is flushed and filled again, missing jumps are inserted at the top
 * of the built-in chains (EnsureRule with Prepend), and existing ones are not moved.
 */
export function tableInput(name: string, change: TableChange): string {
  const { wanted, remove = [] } = change
  const lines: string[] = []
  const rules: string[] = []
  for (const chain of wanted.values()) {
    const { isDeclared, added } = chainInput(name, chain, change)
    if (isDeclared) lines.push(`:${chain.name} - [0:0]`)
    for (const rule of added) rules.push(rule)
  }
  // Declaring a chain flushes it, so that chains that jump to each other can be deleted in any
  // order.
  lines.push(...remove.map((chain) => `:${chain} - [0:0]`))
  rules.push(...remove.map((chain) => `-X ${chain}`))
  if (lines.length + rules.length === 0) return ''
  return `*${name}\n${[...lines, ...rules].join('\n')}\nCOMMIT\n`
}

/** Whether a chain is declared, which creates or flushes it, and the rules that are added to it. */
interface ChainInput {
  isDeclared: boolean
  added: readonly string[]
}

function chainInput(
  table: string,
  { name, rules }: Chain,
  { current, write }: TableChange,
): ChainInput {
  if (isBuiltIn(table, name)) {
    const added = current ? missingJumps(name, rules, current.get(name)?.rules ?? []) : []
    return { isDeclared: false, added }
  }
  if (write && !write.has(name)) return { isDeclared: false, added: [] }
  if (isEnsuredOnly(table, name)) {
    const isMissing = current !== undefined && !current.has(name)
    return { isDeclared: isMissing, added: [] }
  }
  return { isDeclared: true, added: rules.map(({ spec }) => `-A ${name} ${spec}`) }
}

/**
 * The predicted order is that of an empty node, on which the last jump created is the first one.
 */
function missingJumps(chain: string, wanted: RuleLines, current: RuleLines): string[] {
  const present = new Set(current.map(({ spec }) => spec))
  return wanted
    .filter(({ spec }) => !present.has(spec))
    .reverse()
    .map(({ spec }) => `-I ${chain} ${spec}`)
}

/**
 * The input of a full sync with all predicted tables. `remove` names stale chains of the nat table.
 */
export function fullInput(
  wanted: Ruleset,
  current: Ruleset,
  remove: readonly string[] = [],
): string {
  let input = ''
  for (const [name, table] of wanted)
    input += tableInput(name, {
      wanted: table,
      current: current.get(name) ?? new Map(),
      remove: name === 'nat' ? remove : [],
    })
  return input
}
