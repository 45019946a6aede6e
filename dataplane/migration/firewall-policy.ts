import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import type { ComparedNode } from './compare-nodes.ts'
import { probeAnswers } from './probe-answer.ts'
import { type MigrationProbe, migrationProbes } from './probes.ts'

type FilterChain = 'INPUT' | 'FORWARD'

/**
 * The node with a firewall that drops what its rules do not know in one chain
 * (`iptables -P FORWARD DROP`).
 */
export function withDropPolicy(state: NodeState, chain: FilterChain): NodeState {
  const filter = new Map(state.iptables.get('filter'))
  const { rules = [] } = filter.get(chain) ?? {}
  filter.set(chain, { name: chain, rules, policy: 'DROP' })
  return { ...state, iptables: new Map(state.iptables).set('filter', filter) }
}

/**
 * The probes of a node, for each chain, that are answered on both sides without a firewall, and
 * only before the change with a policy DROP in this chain: IPVS takes packets in INPUT, the other
 * modes forward them, and only the modes based on iptables have rules that accept them.
 */
export function stoppedByPolicy(
  objects: ClusterObjects,
  { node, before, after }: ComparedNode,
): Record<FilterChain, MigrationProbe[]> {
  const isAnswered = (state: NodeState) => {
    const answers = probeAnswers(objects, node, state)
    return ({ packet }: MigrationProbe) => answers(packet).endpoints.size > 0
  }
  const probes = migrationProbes(objects, after.proxier)
    .filter(isAnswered(before.state))
    .filter(isAnswered(after.state))
  const stoppedIn = (chain: FilterChain) => {
    const passedBefore = isAnswered(withDropPolicy(before.state, chain))
    const passesAfter = isAnswered(withDropPolicy(after.state, chain))
    return probes.filter((probe) => passedBefore(probe) && !passesAfter(probe))
  }
  return { INPUT: stoppedIn('INPUT'), FORWARD: stoppedIn('FORWARD') }
}
