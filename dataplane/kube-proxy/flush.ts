import { counted } from '../compare/difference.ts'
import type { Chain, Ruleset, Table } from '../iptables-save.ts'
import type { VirtualServer } from '../ipvsadm-save.ts'
import { KUBE_PROXY_TABLE, nftTitle } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import { commentOf, targetOf } from '../rule.ts'
import {
  DUMMY_LINK,
  isChainOfAnyMode,
  isChainOfModeOnly,
  isIpvsModeSet,
  isJumpOfModeOnly,
  type KernelMode,
  kubeProxyVirtualServers,
  type SwitchedMode,
} from './mode-ownership.ts'

/** The chains, and the jumps from built-in chains, to remove from one family's tables. */
export interface RulesetFlush {
  chains: { table: string; chain: string; rules: number }[]
  jumps: { table: string; chain: string; spec: string }[]
  /**
   * Input of `iptables-restore --noflush`: each table is changed in one step. Empty if nothing is
   * to be removed.
   */
  restore: string
}

/**
 * The leftovers of a mode on one node, in the order in which they can be removed without
 * interrupting a Service.
 */
export interface FlushPlan {
  /** The mode that the leftovers belong to: the one that does not run, or both if nftables runs. */
  left: SwitchedMode | 'iptables or ipvs'
  ipv4: RulesetFlush
  ipv6: RulesetFlush
  virtualServers: VirtualServer[]
  /** The addresses on kube-ipvs0; undefined if the link does not exist or is in use. */
  linkAddresses?: string[]
  sets: { name: string; members: number }[]
  /** Tables of mode nftables, such as `ip kube-proxy`. */
  nftables: string[]
  /** Apparent leftovers that are kept, each with the reason in a sentence. */
  kept: string[]
}

/** True if the node has no leftovers of another mode. */
export const isEmptyFlush = (plan: FlushPlan): boolean => describeFlush(plan).length === 0

/**
 * If nftables runs, nothing of iptables or ipvs is in use; between those two, only objects that the
 * other mode alone writes are leftovers.
 */
const isLeftChain = (left: FlushPlan['left'], table: string, chain: string): boolean =>
  left === 'iptables or ipvs'
    ? isChainOfAnyMode(table, chain)
    : isChainOfModeOnly(left, table, chain)

const isLeftJump = (left: FlushPlan['left'], table: string, spec: string): boolean =>
  left === 'iptables or ipvs'
    ? isChainOfAnyMode(table, targetOf(spec) ?? '')
    : isJumpOfModeOnly(left, table, commentOf(spec) ?? '')

/**
 * Plans the removal of other modes' leftovers from a node (kube-proxy 1.20–1.36 cleans up nothing
 * when it switches between iptables and ipvs, and not everything when it switches to or from
 * nftables). Only chains, jumps and sets that kube-proxy alone writes, its virtual servers,
 * kube-ipvs0 and its nf_tables tables are removed. Objects that a remaining rule refers to are
 * kept, with the reason in `kept`.
 * @param running the mode in force, from kube-proxy's own /proxyMode
 * @param state the node's IPv4 rules, sets of both families, virtual servers and links
 * @param ipv6 the rules of ip6tables, if they were read
 */
export function planFlush(
  running: KernelMode,
  state: NodeState,
  ipv6: Ruleset = new Map(),
): FlushPlan {
  const left =
    running === 'nftables' ? 'iptables or ipvs' : running === 'ipvs' ? 'iptables' : 'ipvs'
  const kept: string[] = []
  const ownTables = state.nftables?.filter(({ name }) => name === KUBE_PROXY_TABLE) ?? []
  const plan: FlushPlan = {
    left,
    ipv4: flushRuleset(left, state.iptables, kept),
    ipv6: flushRuleset(left, ipv6, kept),
    virtualServers: [],
    sets: [],
    nftables: running === 'nftables' ? [] : ownTables.map(nftTitle),
    kept,
  }
  if (left === 'iptables') return plan
  plan.virtualServers = kubeProxyVirtualServers(state)
  const link = state.links.find(({ name }) => name === DUMMY_LINK)
  if (link) plan.linkAddresses = link.addresses.map(({ address }) => address)
  const used = new Set([...usedSets(state.iptables, plan.ipv4), ...usedSets(ipv6, plan.ipv6)])
  for (const { name, members } of state.ipsets.values()) {
    if (!isIpvsModeSet(name)) continue
    if (used.has(name))
      kept.push(`The set ${name} stays: a rule that is not removed still matches against it.`)
    else plan.sets.push({ name, members: members.size })
  }
  return plan
}

function flushRuleset(left: FlushPlan['left'], ruleset: Ruleset, kept: string[]): RulesetFlush {
  const flush: RulesetFlush = { chains: [], jumps: [], restore: '' }
  for (const [name, table] of ruleset) flushTable(left, name, table, flush, kept)
  return flush
}

function flushTable(
  left: FlushPlan['left'],
  name: string,
  table: Table,
  flush: RulesetFlush,
  kept: string[],
): void {
  const stale = new Set([...table.keys()].filter((chain) => isLeftChain(left, name, chain)))
  const jumps = [...table.values()].flatMap(({ name: chain, policy, rules }) =>
    policy === '-'
      ? []
      : rules
          .filter(({ spec }) => isLeftJump(left, name, spec))
          .map(({ spec }) => ({ chain, spec })),
  )
  const removed = new Set(jumps.map(({ chain, spec }) => `${chain} ${spec}`))
  for (const [chain, by] of stillReached(table, stale, removed)) {
    stale.delete(chain)
    kept.push(`The ${name} chain ${chain} stays: ${by} still leads to it.`)
  }
  if (stale.size + jumps.length === 0) return
  for (const chain of stale)
    flush.chains.push({ table: name, chain, rules: table.get(chain)?.rules.length ?? 0 })
  flush.jumps.push(...jumps.map((jump) => ({ table: name, ...jump })))
  const lines = [
    `*${name}`,
    // Declaring a chain flushes it, so that no chain refers to another one when they are deleted.
    ...[...stale].map((chain) => `:${chain} - [0:0]`),
    ...jumps.map(({ chain, spec }) => `-D ${chain} ${spec}`),
    ...[...stale].map((chain) => `-X ${chain}`),
    'COMMIT',
  ]
  flush.restore += `${lines.join('\n')}\n`
}

/**
 * Stale chains that are still reachable from other chains, directly or indirectly, with the chain
 * that leads to them.
 */
function stillReached(
  table: Table,
  stale: ReadonlySet<string>,
  removed: ReadonlySet<string>,
): Map<string, string> {
  const reached = new Map<string, string>()
  const visit = (from: string) => {
    for (const { spec } of table.get(from)?.rules ?? []) {
      const target = targetOf(spec)
      if (
        target === undefined ||
        !stale.has(target) ||
        reached.has(target) ||
        removed.has(`${from} ${spec}`)
      )
        continue
      reached.set(target, from)
      visit(target)
    }
  }
  for (const chain of table.keys()) if (!stale.has(chain)) visit(chain)
  return reached
}

const SET_REFERENCE = /--(?:match-set|add-set|del-set|map-set) (\S+)/g

function usedSets(ruleset: Ruleset, flush: RulesetFlush): Set<string> {
  const used = new Set<string>()
  const gone = new Set(flush.chains.map(({ table, chain }) => `${table} ${chain}`))
  for (const [name, table] of ruleset)
    for (const chain of table.values())
      if (!gone.has(`${name} ${chain.name}`)) addUsedSets(chain, used)
  return used
}

/** Adds the names of the sets that a chain's rules refer to. */
function addUsedSets({ rules }: Chain, used: Set<string>): void {
  for (const { spec } of rules)
    for (const [, set] of spec.matchAll(SET_REFERENCE)) if (set !== undefined) used.add(set)
}

/** A description of a plan: one line per kind of removed object. */
export function describeFlush(plan: FlushPlan): string[] {
  const lines: string[] = []
  for (const [family, { chains, jumps }] of [
    ['', plan.ipv4],
    ['IPv6 ', plan.ipv6],
  ] as const)
    for (const table of new Set([...chains, ...jumps].map((item) => item.table))) {
      const own = chains.filter((item) => item.table === table)
      const counts = {
        chain: own.length,
        rule: own.reduce((sum, { rules }) => sum + rules, 0),
        jump: jumps.filter((item) => item.table === table).length,
      }
      const removed = Object.entries(counts).filter(([, count]) => count > 0)
      lines.push(
        `${family}${table}: ${removed.map(([noun, count]) => counted(count, noun)).join(', ')}`,
      )
    }
  if (plan.virtualServers.length > 0)
    lines.push(counted(plan.virtualServers.length, 'virtual server'))
  if (plan.linkAddresses)
    lines.push(`kube-ipvs0 with ${counted(plan.linkAddresses.length, 'address')}`)
  if (plan.sets.length > 0) lines.push(counted(plan.sets.length, 'ipset'))
  for (const table of plan.nftables) lines.push(`nft table ${table}`)
  return lines
}
