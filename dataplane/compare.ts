import { compareIptables } from './compare/compare-iptables.ts'
import { compareIpsets, compareLinks, compareVirtualServers } from './compare/compare-ipvs.ts'
import { compareNftables } from './compare/compare-nftables.ts'
import type { CompareOptions, Finding } from './compare/finding.ts'
import { withAssignedListeners } from './kube-proxy/userspace/ruleset.ts'
import type { NodeState } from './node-state.ts'

export type { CompareOptions, Finding, Where } from './compare/finding.ts'

/**
 * Compares the predicted state of a node with its actual state in both directions, limited to the objects that
 * kube-proxy owns: KUBE-* chains and the jumps to them, KUBE-* sets, virtual servers, kube-ipvs0, and its
 * nf_tables tables. Counters, comment lines, hash sizes, the order of sets and Services, and the ports that the kernel
 * assigned to listeners of userspace mode are ignored. An empty list means that they are equal.
 */
export function compareNodeState(expected: NodeState, actual: NodeState, options: CompareOptions): Finding[] {
  const rules =
    options.mode === 'userspace' ? withAssignedListeners(expected.iptables, actual.iptables) : expected.iptables
  return [
    ...compareIptables(rules, actual.iptables, options),
    ...compareIpsets(expected.ipsets, actual.ipsets, options),
    ...compareVirtualServers(expected, actual, options),
    ...compareLinks(expected.links, actual.links, options),
    ...compareNftables(expected.nftables ?? [], actual.nftables ?? [], options),
  ]
}
