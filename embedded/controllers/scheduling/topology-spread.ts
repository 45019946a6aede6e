// topologySpreadConstraints, as the scheduler's PodTopologySpread plugin reads them.
import type { V1LabelSelector, V1TopologySpreadConstraint } from '@kubernetes/client-node'
import { matchesSelector } from '../../../dataplane/label-selector.ts'
import { isTerminating } from '../pod-condition.ts'
import type { Node, Pod, Stored } from '../resources.ts'
import { matchesNode } from './node-affinity.ts'
import type { SchedulingView } from './snapshot.ts'
import { untolerated } from './taints.ts'

type Constraint = Stored<V1TopologySpreadConstraint>

function constraints(pod: Pod, whenUnsatisfiable: string): Constraint[] {
  return (pod.spec.topologySpreadConstraints ?? []).filter((item) => item.whenUnsatisfiable === whenUnsatisfiable)
}

function selectorOf({ labelSelector, matchLabelKeys = [] }: Constraint, pod: Pod): V1LabelSelector | undefined {
  if (!labelSelector) return undefined
  const own = matchLabelKeys.flatMap((key) => {
    const value = pod.metadata.labels?.[key]
    return value === undefined ? [] : [{ key, operator: 'In', values: [value] }]
  })
  return { ...labelSelector, matchExpressions: [...(labelSelector.matchExpressions ?? []), ...own] }
}

/** Matching Pods per domain of the constraint's key, over the nodes that its policies let count. */
function matchesByDomain(
  pod: Pod,
  constraint: Constraint,
  keys: readonly string[],
  snapshot: SchedulingView,
): Map<string, number> {
  const selector = selectorOf(constraint, pod)
  const counts = new Map<string, number>()
  for (const node of snapshot.nodes) {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    if (domain === undefined || keys.some((key) => node.metadata.labels?.[key] === undefined)) continue
    if (constraint.nodeAffinityPolicy !== 'Ignore' && !matchesNode(node, pod.spec)) continue
    const taints = untolerated(node, pod.spec.tolerations ?? [], ['NoSchedule', 'NoExecute'])
    if (constraint.nodeTaintsPolicy === 'Honor' && taints.length > 0) continue
    const matching = (snapshot.byNode.get(node.metadata.name) ?? []).filter(
      ({ pod: other }) =>
        other.metadata.namespace === pod.metadata.namespace &&
        !isTerminating(other) &&
        matchesSelector(selector, other.metadata.labels),
    )
    counts.set(domain, (counts.get(domain) ?? 0) + matching.length)
  }
  return counts
}

/** Why a node breaks a DoNotSchedule constraint: it lacks the key, or the skew would become too large. */
export function spreadFault(pod: Pod, node: Node, snapshot: SchedulingView): 'label' | 'skew' | undefined {
  const hard = constraints(pod, 'DoNotSchedule')
  const keys = hard.map(({ topologyKey }) => topologyKey)
  for (const constraint of hard) {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    if (domain === undefined) return 'label'
    const counts = matchesByDomain(pod, constraint, keys, snapshot)
    const fewest = counts.size < (constraint.minDomains ?? 1) ? 0 : Math.min(...counts.values())
    const itself = matchesSelector(selectorOf(constraint, pod), pod.metadata.labels) ? 1 : 0
    if ((counts.get(domain) ?? 0) + itself - fewest > constraint.maxSkew) return 'skew'
  }
  return undefined
}

/** Matching Pods in the node's domains over all ScheduleAnyway constraints; fewer is better. */
export function softSpreadCrowd(pod: Pod, node: Node, snapshot: SchedulingView): number {
  return constraints(pod, 'ScheduleAnyway').reduce((crowd, constraint) => {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    const counts = matchesByDomain(pod, constraint, [constraint.topologyKey], snapshot)
    // A node outside all domains is the last resort.
    return crowd + (domain === undefined ? snapshot.placed.length + 1 : (counts.get(domain) ?? 0))
  }, 0)
}
