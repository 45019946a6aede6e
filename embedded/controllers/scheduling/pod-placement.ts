import type { V1LabelSelector, V1PodAffinityTerm, V1TopologySpreadConstraint } from '@kubernetes/client-node'
import { matchesSelector } from '../../../dataplane/label-selector.ts'
import { isTerminating, type Node, type Pod, type Stored } from '../resources.ts'
import { matchesNode, type PlacedPod, type SchedulingView, untolerated } from './node-fit.ts'

// topologySpreadConstraints, as in the scheduler's PodTopologySpread plugin.

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

/** Matching Pods per domain of the constraint's key, over the nodes that its policies include. */
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

/** Why a node violates a DoNotSchedule constraint: it lacks the key, or the skew would become too large. */
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
export function softSpreadCount(pod: Pod, node: Node, snapshot: SchedulingView): number {
  return constraints(pod, 'ScheduleAnyway').reduce((crowd, constraint) => {
    const domain = node.metadata.labels?.[constraint.topologyKey]
    const counts = matchesByDomain(pod, constraint, [constraint.topologyKey], snapshot)
    // A node outside all domains is the last resort.
    return crowd + (domain === undefined ? snapshot.placed.length + 1 : (counts.get(domain) ?? 0))
  }, 0)
}

// Pod affinity and anti-affinity, as in the scheduler's InterPodAffinity plugin.

type Term = Stored<V1PodAffinityTerm>

/** Whether a term of `owner` applies to `pod`: its namespace and its labels match. */
function appliesTo(term: Term, owner: Pod, pod: Pod, snapshot: SchedulingView): boolean {
  const namespace = pod.metadata.namespace ?? ''
  const { namespaces = [], namespaceSelector } = term
  const own = namespaces.length === 0 && !namespaceSelector
  const inNamespace =
    (own && namespace === owner.metadata.namespace) ||
    namespaces.includes(namespace) ||
    matchesSelector(namespaceSelector, snapshot.namespaceLabels(namespace))
  return inNamespace && matchesSelector(withLabelKeys(term, owner), pod.metadata.labels)
}

/** matchLabelKeys and mismatchLabelKeys compare with the owner's own label values. */
function withLabelKeys({ labelSelector, matchLabelKeys = [], mismatchLabelKeys = [] }: Term, owner: Pod) {
  if (!labelSelector) return labelSelector
  const requirements = (keys: readonly string[], operator: string) =>
    keys.flatMap((key) => {
      const value = owner.metadata.labels?.[key]
      return value === undefined ? [] : [{ key, operator, values: [value] }]
    })
  return {
    ...labelSelector,
    matchExpressions: [
      ...(labelSelector.matchExpressions ?? []),
      ...requirements(matchLabelKeys, 'In'),
      ...requirements(mismatchLabelKeys, 'NotIn'),
    ],
  }
}

function sameDomain(key: string, left: Node, right: Node): boolean {
  const value = left.metadata.labels?.[key]
  return value !== undefined && value === right.metadata.labels?.[key]
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
  if (terms.length === 0) return true
  if (!terms.every(({ topologyKey }) => node.metadata.labels?.[topologyKey] !== undefined)) return false
  // Kubernetes counts only Pods that match all terms at once.
  const partners = snapshot.placed.filter((other) => terms.every((term) => appliesTo(term, pod, other.pod, snapshot)))
  if (terms.every(({ topologyKey }) => partners.some((other) => sameDomain(topologyKey, other.node, node)))) return true
  return partners.length === 0 && terms.every((term) => appliesTo(term, pod, pod, snapshot))
}

/** The required anti-affinity: no Pod that a term applies to is in the node's domain. */
export function meetsAntiAffinity(pod: Pod, node: Node, snapshot: SchedulingView): boolean {
  return required(antiAffinityOf(pod)).every(
    (term) =>
      !snapshot.placed.some(
        (other) => sameDomain(term.topologyKey, other.node, node) && appliesTo(term, pod, other.pod, snapshot),
      ),
  )
}

/** Anti-affinity is mutual: no existing Pod excludes this one. */
export function isAllowedByOthers(pod: Pod, node: Node, snapshot: SchedulingView): boolean {
  return !snapshot.placed.some((other) =>
    required(antiAffinityOf(other.pod)).some(
      (term) => sameDomain(term.topologyKey, other.node, node) && appliesTo(term, other.pod, pod, snapshot),
    ),
  )
}

/** Preferred terms of the Pod about others and of others about it, for and against the node; higher is better. */
export function affinityScore(pod: Pod, node: Node, snapshot: SchedulingView): number {
  let score = 0
  const weigh = (sign: number, owner: Pod, other: Pod, otherNode: Node) => {
    const affinity = sign > 0 ? affinityOf(owner) : antiAffinityOf(owner)
    for (const { weight, podAffinityTerm } of affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []) {
      if (!sameDomain(podAffinityTerm.topologyKey, otherNode, node)) continue
      if (appliesTo(podAffinityTerm, owner, other, snapshot)) score += sign * weight
    }
  }
  for (const other of snapshot.placed) {
    for (const sign of [1, -1]) {
      weigh(sign, pod, other.pod, other.node)
      weigh(sign, other.pod, pod, other.node)
    }
    score += attraction(other, pod, node, snapshot)
  }
  return score
}

/** A Pod with required affinity to this one adds weight 1 (hardPodAffinityWeight). */
function attraction(other: PlacedPod, pod: Pod, node: Node, snapshot: SchedulingView): number {
  return required(affinityOf(other.pod)).filter(
    (term) => sameDomain(term.topologyKey, other.node, node) && appliesTo(term, other.pod, pod, snapshot),
  ).length
}
