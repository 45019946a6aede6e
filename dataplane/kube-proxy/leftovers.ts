import { isKubeProxyChain, isKubeProxySet, isSharedChain } from '../compare/ownership.ts'
import type { VirtualServer } from '../ipvsadm-save.ts'
import type { NodeState } from '../node-state.ts'
import { targetOf } from '../rule-text.ts'
import { DUMMY_LINK } from './ipvs/dummy-link.ts'
import { applySwitch, type SwitchOptions } from './switch.ts'

/** What of kube-proxy's is on a node although the kube-proxy that runs there has no use for it. */
export interface Leftovers {
  /** Chains, with how many rules of the whole table still lead into each. */
  chains: { table: string; chain: string; references: number }[]
  /** Rules in built-in chains that lead into kube-proxy's chains. */
  jumps: { table: string; chain: string; spec: string }[]
  /** Names of sets. */
  ipsets: string[]
  virtualServers: VirtualServer[]
  /** Addresses still bound to kube-ipvs0; with `link` the interface itself is left over. */
  addresses: string[]
  link: boolean
}

/** How many rules of a table lead into each chain. */
function references(state: NodeState, table: string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const chain of state.iptables.get(table)?.values() ?? [])
    for (const { spec } of chain.rules) {
      const target = targetOf(spec)
      if (target !== undefined) counts.set(target, (counts.get(target) ?? 0) + 1)
    }
  return counts
}

/**
 * What an in-place switch leaves behind: everything of kube-proxy's that stands on the node after a start in
 * `options.mode` and that the prediction for an untouched node does not have. Chains that the kubelet writes too
 * (KUBE-FIREWALL, KUBE-MARK-DROP) are never counted.
 * @param previous the node before the switch (or after it: the answer is the same)
 */
export function leftovers(previous: NodeState, prediction: NodeState, options: SwitchOptions): Leftovers {
  const after = applySwitch(previous, prediction, options)
  const result: Leftovers = { chains: [], jumps: [], ipsets: [], virtualServers: [], addresses: [], link: false }
  for (const [table, chains] of after.iptables) {
    const counts = references(after, table)
    const wanted = prediction.iptables.get(table)
    for (const [name, chain] of chains) {
      const predicted = wanted?.get(name)
      if (isKubeProxyChain(name)) {
        if (!predicted && !isSharedChain(table, name))
          result.chains.push({ table, chain: name, references: counts.get(name) ?? 0 })
        continue
      }
      const expected = new Set(predicted?.rules.map((rule) => rule.spec))
      for (const { spec } of chain.rules) {
        const target = targetOf(spec) ?? ''
        if (!expected.has(spec) && isKubeProxyChain(target) && !isSharedChain(table, target))
          result.jumps.push({ table, chain: name, spec })
      }
    }
  }
  for (const name of after.ipsets.keys())
    if (isKubeProxySet(name) && !prediction.ipsets.has(name)) result.ipsets.push(name)
  if (options.mode === 'ipvs') return result
  const dummy = after.links.find((link) => link.name === DUMMY_LINK)
  if (!dummy) return result
  return {
    ...result,
    link: true,
    addresses: dummy.addresses.map(({ address }) => address),
    virtualServers: after.virtualServers,
  }
}
