// The state of a used node after kube-proxy starts on it: it rewrites its own objects and leaves all others unchanged.

import type { Link } from '../ip-addr.ts'
import { contains } from '../ip-address.ts'
import type { IpSets } from '../ipset-save.ts'
import type { Chain, Ruleset, Table } from '../iptables-save.ts'
import { type VirtualServer, virtualServerKey } from '../ipvsadm-save.ts'
import type { NodeState } from '../node-state.ts'
import type { KubeProxyMode } from './config.ts'
import { isServiceChain } from './rule-text.ts'
import { inKernelOrder } from './ruleset-builder.ts'

/**
 * Chains that kube-proxy only creates if they are missing; the kubelet writes their rules (nat KUBE-MARK-DROP up to
 * 1.26).
 */
const ENSURED_ONLY = new Set(['nat KUBE-MARK-DROP'])

export interface SwitchOptions {
  /** The mode that starts. */
  mode: Exclude<KubeProxyMode, 'nftables'>
  /** kube-proxy does not delete virtual servers in these ranges (`ipvs.excludeCIDRs`). */
  excludeCIDRs?: readonly string[]
}

/** Inserts missing jumps at the top, as EnsureRule(Prepend) does; existing ones are not moved. */
function withJumps(present: Chain, wanted: Chain): Chain {
  const specs = new Set(present.rules.map((rule) => rule.spec))
  const missing = wanted.rules.filter((rule) => !specs.has(rule.spec))
  return missing.length === 0 ? present : { ...present, rules: [...missing, ...present.rules] }
}

function switchTable(name: string, present: Table, wanted: Table, options: SwitchOptions): Table {
  const result: Table = new Map(present)
  for (const [chain, predicted] of wanted) {
    const existing = present.get(chain)
    if (existing && existing.policy !== '-') result.set(chain, withJumps(existing, predicted))
    else if (!existing || !ENSURED_ONLY.has(`${name} ${chain}`)) result.set(chain, predicted)
  }
  // Only iptables mode looks for stale chains of Services, and only in nat.
  if (options.mode === 'iptables' && name === 'nat')
    for (const chain of present.keys()) if (isServiceChain(chain) && !wanted.has(chain)) result.delete(chain)
  return result
}

function switchRules(present: Ruleset, wanted: Ruleset, options: SwitchOptions): Ruleset {
  const result: Ruleset = new Map(present)
  for (const [name, table] of wanted)
    result.set(name, switchTable(name, present.get(name) ?? new Map(), table, options))
  return inKernelOrder(result)
}

/** Sets are created and filled, never destroyed. */
function switchSets(present: IpSets, wanted: IpSets): IpSets {
  const result: IpSets = new Map(present)
  for (const [name, set] of wanted) {
    const existing = present.get(name)
    result.set(name, existing ? { ...existing, members: set.members } : set)
  }
  return result
}

function switchServers(present: readonly VirtualServer[], wanted: readonly VirtualServer[], options: SwitchOptions) {
  const excluded = present.filter(
    (server) => server.protocol !== 'FWM' && options.excludeCIDRs?.some((range) => contains(range, server.address)),
  )
  const predicted = new Set(wanted.map(virtualServerKey))
  return [...wanted, ...excluded.filter((server) => !predicted.has(virtualServerKey(server)))]
}

function switchLinks(present: readonly Link[], wanted: readonly Link[]): Link[] {
  const names = new Set(wanted.map((link) => link.name))
  return [...present.filter((link) => !names.has(link.name)), ...wanted]
}

/**
 * The state of a node with state `previous` after kube-proxy was restarted in `options.mode`; `prediction` is the
 * state that the same kube-proxy programs on an empty node. No version cleans up after another mode when it starts
 * (kubernetes/kubernetes#76109), so objects of the other mode remain. The family of the prediction's rules must be
 * that of `previous`.
 */
export function applySwitch(previous: NodeState, prediction: NodeState, options: SwitchOptions): NodeState {
  const ipvs = options.mode === 'ipvs'
  return {
    ...previous,
    iptables: switchRules(previous.iptables, prediction.iptables, options),
    ipsets: ipvs ? switchSets(previous.ipsets, prediction.ipsets) : previous.ipsets,
    virtualServers: ipvs
      ? switchServers(previous.virtualServers, prediction.virtualServers, options)
      : previous.virtualServers,
    links: ipvs ? switchLinks(previous.links, prediction.links) : previous.links,
  }
}
