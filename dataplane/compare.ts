import { compareIptables } from './compare/compare-iptables.ts'
import { compareIpsets, compareLinks, compareVirtualServers } from './compare/compare-ipvs.ts'
import { compareNftables } from './compare/compare-nftables.ts'
import type { CompareOptions, Difference, Where } from './compare/difference.ts'
import type { Ruleset } from './iptables-save.ts'
import { withAssignedListeners } from './kube-proxy/userspace/ruleset.ts'
import type { NodeState } from './node-state.ts'

export type { CompareOptions, Difference, DifferenceText, Where } from './compare/difference.ts'

/**
 * Compares the predicted state of a node with its actual state in both directions, limited to the
 * objects that kube-proxy owns: KUBE-* chains and the jumps to them, KUBE-* sets, virtual servers,
 * kube-ipvs0, and its nf_tables tables. Counters, comment lines, hash sizes, the order of sets and
 * Services, and the ports that the kernel assigned to listeners of userspace mode are ignored. The
 * IPv6 rules are compared if both states have them. An empty list means that they are equal.
 */
export function compareNodeState(
  expected: NodeState,
  actual: NodeState,
  options: CompareOptions,
): Difference[] {
  const rules =
    options.mode === 'userspace'
      ? withAssignedListeners(expected.iptables, actual.iptables)
      : expected.iptables
  return [
    ...compareIptables(rules, actual.iptables, options),
    ...compareIp6tables(expected.ip6tables, actual.ip6tables, options),
    ...compareIpsets(expected.ipsets, actual.ipsets, options),
    ...compareVirtualServers(expected, actual, options),
    ...compareLinks(expected.links, actual.links, options),
    ...compareNftables(expected.nftables ?? [], actual.nftables ?? [], options),
  ]
}

/** The differences about rules of ip6tables, which name the family. */
function compareIp6tables(
  expected: Ruleset | undefined,
  actual: Ruleset | undefined,
  options: CompareOptions,
): Difference[] {
  if (!expected || !actual) return []
  return compareIptables(expected, actual, options).map(
    ({ where, text, ...difference }): Difference => {
      return {
        ...difference,
        where: { ...where, family: 'ipv6' } as Where,
        text: `ip6tables ${text}`,
      }
    },
  )
}
