import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import type { ComparedNode } from './compare-nodes.ts'
import { probeAnswers } from './probe-answer.ts'
import { type MigrationProbe, migrationProbes } from './probes.ts'

type FilterChain = 'INPUT' | 'FORWARD'

/** The node with a firewall that drops what its rules do not know in one chain (`iptables -P FORWARD DROP`). */
export function withDropPolicy(state: NodeState, chain: FilterChain): NodeState {
  const filter = new Map(state.iptables.get('filter'))
  const { rules = [] } = filter.get(chain) ?? {}
  filter.set(chain, { name: chain, rules, policy: 'DROP' })
  return { ...state, iptables: new Map(state.iptables).set('filter', filter) }
}

/**
 * The probes of a node that are answered on both sides without a firewall, and only before the change with a policy DROP in this
 * chain: IPVS takes packets in INPUT, the other modes forward them, and only the modes based on iptables have rules that accept them.
 */
export function stoppedByPolicy(
  objects: ClusterObjects,
  { node, before, after }: ComparedNode,
  chain: FilterChain,
): MigrationProbe[] {
  const isAnswered = ({ state }: ComparedNode['before']) => {
    const answers = probeAnswers(objects, node, state)
    return ({ packet }: MigrationProbe) => answers(packet).endpoints.size > 0
  }
  const behind = (side: ComparedNode['before']) =>
    isAnswered({ ...side, state: withDropPolicy(side.state, chain) })
  const needed = [isAnswered(before), isAnswered(after), behind(before)]
  const passes = behind(after)
  return migrationProbes(objects, after.proxier).filter(
    (probe) => needed.every((test) => test(probe)) && !passes(probe),
  )
}
