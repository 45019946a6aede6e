import type { V1PodAffinityTerm, V1TopologySpreadConstraint } from '@kubernetes/client-node'
import { matchesSelector } from '../../../dataplane/label-selector.ts'
import { isTerminating, type Node, type Pod, type Stored } from '../resources.ts'
import { matchesNode, type SchedulingView, untolerated } from './node-fit.ts'

function allPods({ byNode }: SchedulingView): Pod[] {
  return [...byNode.values()].flat()
}

// topologySpreadConstraints, as in the scheduler's PodTopologySpread plugin.

type Constraint = Stored<V1TopologySpreadConstraint>

function constraints(pod: Pod, whenUnsatisfiable: string): Constraint[] {
  return (pod.spec.topologySpreadConstraints ?? []).filter((item) => item.whenUnsatisfiable === whenUnsatisfiable)
}

/** Matching Pods per domain of the constraint's key, over the nodes that its policies include. */
function matchesByDomain(pod: Pod, constraint: Constraint, snapshot: SchedulingView): Map<string, number> {
  const counts = new Map<string, number>()
  for (const node of snapshot.nodes) {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    if (domain === undefined || !matchesNode(node, pod.spec)) continue
    const taints = untolerated(node, pod.spec.tolerations ?? [], ['NoSchedule', 'NoExecute'])
    if (constraint.nodeTaintsPolicy === 'Honor' && taints.length > 0) continue
    const matching = (snapshot.byNode.get(node.metadata.name) ?? []).filter(
      (other) =>
        other.metadata.namespace === pod.metadata.namespace &&
        !isTerminating(other) &&
        matchesSelector(constraint.labelSelector, other.metadata.labels),
    )
    counts.set(domain, (counts.get(domain) ?? 0) + matching.length)
  }
  return counts
}

/** Why a node violates a DoNotSchedule constraint: it lacks the key, or the skew would become too large. */
export function spreadFault(pod: Pod, node: Node, snapshot: SchedulingView): 'label' | 'skew' | undefined {
  for (const constraint of constraints(pod, 'DoNotSchedule')) {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    if (domain === undefined) return 'label'
    const counts = matchesByDomain(pod, constraint, snapshot)
    const itself = matchesSelector(constraint.labelSelector, pod.metadata.labels) ? 1 : 0
    if ((counts.get(domain) ?? 0) + itself - Math.min(...counts.values()) > constraint.maxSkew) return 'skew'
  }
  return undefined
}

/** Matching Pods in the node's domains over all ScheduleAnyway constraints; fewer is better. */
export function softSpreadCount(pod: Pod, node: Node, snapshot: SchedulingView): number {
  return constraints(pod, 'ScheduleAnyway').reduce((sum, constraint) => {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    // A node outside all domains is the last resort.
    if (domain === undefined) return sum + allPods(snapshot).length + 1
    return sum + (matchesByDomain(pod, constraint, snapshot).get(domain) ?? 0)
  }, 0)
}

// Pod affinity and anti-affinity, as in the scheduler's InterPodAffinity plugin.

type Term = Stored<V1PodAffinityTerm>

/** Whether a term of `owner` applies to `pod`: its namespace and its labels match. */
function appliesTo({ namespaces, labelSelector }: Term, owner: Pod, pod: Pod): boolean {
  const allowed = namespaces?.length ? namespaces : [owner.metadata.namespace]
  return allowed.includes(pod.metadata.namespace ?? '') && matchesSelector(labelSelector, pod.metadata.labels)
}

/** The Pods in a node's domain of a term's topology key. */
function podsInDomain({ topologyKey }: Term, node: Node, { nodes, byNode }: SchedulingView): Pod[] {
  const domain = node.metadata.labels?.[topologyKey]
  if (domain === undefined) return []
  const same = nodes.filter(({ metadata }) => metadata.labels?.[topologyKey] === domain)
  return same.flatMap(({ metadata }) => byNode.get(metadata.name) ?? [])
}

const affinityOf = ({ spec }: Pod) => spec.affinity?.podAffinity
const antiAffinityOf = ({ spec }: Pod) => spec.affinity?.podAntiAffinity
const required = (affinity: { requiredDuringSchedulingIgnoredDuringExecution?: Term[] } | undefined) =>
  affinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []

/**
 * The required affinity: every term needs a matching Pod in the node's domain. The first Pod of a group has no match
 * yet; it may run on any node with the topology keys if it matches its own terms.
 */
export function meetsAffinity(pod: Pod, node: Node, snapshot: SchedulingView): boolean {
  const terms = required(affinityOf(pod))
  if (!terms.every(({ topologyKey }) => node.metadata.labels?.[topologyKey] !== undefined)) return false
  // Kubernetes counts only Pods that match all terms at once.
  const isPartner = (other: Pod) => terms.every((term) => appliesTo(term, pod, other))
  if (terms.every((term) => podsInDomain(term, node, snapshot).some(isPartner))) return true
  return isPartner(pod) && !allPods(snapshot).some(isPartner)
}

/** The required anti-affinity: no Pod that a term applies to is in the node's domain. */
export function meetsAntiAffinity(pod: Pod, node: Node, snapshot: SchedulingView): boolean {
  const terms = required(antiAffinityOf(pod))
  return !terms.some((term) => podsInDomain(term, node, snapshot).some((other) => appliesTo(term, pod, other)))
}

/** Anti-affinity is mutual: no existing Pod excludes this one. */
export function isAllowedByOthers(pod: Pod, node: Node, snapshot: SchedulingView): boolean {
  return !allPods(snapshot).some((other) =>
    required(antiAffinityOf(other)).some(
      (term) => appliesTo(term, other, pod) && podsInDomain(term, node, snapshot).includes(other),
    ),
  )
}

/** Preferred terms of the Pod about others, for and against the node; higher is better. */
export function affinityScore(pod: Pod, node: Node, snapshot: SchedulingView): number {
  const score = (affinity: ReturnType<typeof affinityOf> | ReturnType<typeof antiAffinityOf>) =>
    (affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).reduce((sum, { weight, podAffinityTerm }) => {
      const others = podsInDomain(podAffinityTerm, node, snapshot)
      return sum + weight * others.filter((other) => appliesTo(podAffinityTerm, pod, other)).length
    }, 0)
  return score(affinityOf(pod)) - score(antiAffinityOf(pod))
}
