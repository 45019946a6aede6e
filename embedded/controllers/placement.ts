import type {
  V1NodeSelectorTerm,
  V1PodAffinityTerm,
  V1PodSpec,
  V1Taint,
  V1Toleration,
} from '@kubernetes/client-node'
import { hasLabels, matchesSelector } from '../../dataplane/label-selector.ts'
import type { Api } from '../apiserver/api.ts'
import { controllerOf } from './ownership.ts'
import {
  type AsJson,
  compareRanks,
  isTerminal,
  isTerminating,
  type NodeObject,
  type Pod,
} from './resources.ts'

/**
 * Whether a node meets all requirements of a term on its labels; a term without any matches no
 * node.
 */
function matchesTerm(
  { metadata }: NodeObject,
  { matchExpressions = [] }: AsJson<V1NodeSelectorTerm>,
): boolean {
  return matchExpressions.length > 0 && matchesSelector({ matchExpressions }, metadata.labels)
}

/**
 * Whether a node satisfies a Pod's nodeSelector and its required node affinity (any one of the
 * terms).
 */
export function matchesNode(node: NodeObject, spec: AsJson<V1PodSpec>): boolean {
  if (!hasLabels(node.metadata.labels, spec.nodeSelector ?? {})) return false
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
  return (
    required === undefined || required.nodeSelectorTerms.some((term) => matchesTerm(node, term))
  )
}

type Taint = AsJson<V1Taint>
type Toleration = AsJson<V1Toleration>

/**
 * Whether a toleration covers a taint: an empty key with `Exists` covers all, an empty effect
 * covers every effect.
 */
function tolerates(toleration: Toleration, taint: Taint): boolean {
  if (toleration.effect && toleration.effect !== taint.effect) return false
  if (toleration.key && toleration.key !== taint.key) return false
  if (toleration.operator === 'Exists') return true
  return Boolean(toleration.key) && (toleration.value ?? '') === (taint.value ?? '')
}

/** The node's taints that no toleration covers, without those of effect PreferNoSchedule. */
export function untolerated({ spec }: NodeObject, tolerations: readonly Toleration[]): Taint[] {
  return (spec.taints ?? []).filter(
    (taint) =>
      taint.effect !== 'PreferNoSchedule' &&
      !tolerations.some((toleration) => tolerates(toleration, taint)),
  )
}

/** The input of one scheduling decision. */
export interface SchedulingView {
  nodes: readonly NodeObject[]
  /** Those that have not ended. */
  pods: readonly Pod[]
}

/** Reads the current state of the cluster. */
export function readSchedulingView(api: Api): SchedulingView {
  return { nodes: api.list('nodes'), pods: api.list<Pod>('pods').filter((pod) => !isTerminal(pod)) }
}

type Predicate = (pod: Pod, node: NodeObject, view: SchedulingView) => boolean

const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }
const defaultMaxPods = 110

/**
 * The reasons why a Pod can't go to a node, in the order and with the messages of kube-scheduler's
 * default profile.
 */
const obstacles: readonly [string, Predicate][] = [
  [
    'node(s) were unschedulable',
    ({ spec }, node) =>
      node.spec.unschedulable === true &&
      !spec.tolerations?.some((toleration) => tolerates(toleration, unschedulableTaint)),
  ],
  [
    'node(s) had untolerated taint(s)',
    ({ spec }, node) => untolerated(node, spec.tolerations ?? []).length > 0,
  ],
  [
    "node(s) didn't match Pod's node affinity/selector",
    ({ spec }, node) => !matchesNode(node, spec),
  ],
  [
    'Too many pods',
    (_pod, node, view) =>
      podsOn(node, view).length >= Number(node.status?.allocatable?.pods ?? defaultMaxPods),
  ],
  ["node(s) didn't match pod topology spread constraints", isTooUneven],
  [
    "node(s) didn't match pod anti-affinity rules",
    (pod, node, view) =>
      (antiAffinityOf(pod)?.requiredDuringSchedulingIgnoredDuringExecution ?? []).some(
        (term) => matchesInDomain(term, pod, node, view) > 0,
      ),
  ],
]

/** The first reason why the Pod can't go to the node. */
export function obstacle(pod: Pod, node: NodeObject, view: SchedulingView): string | undefined {
  return obstacles.find(([, prevents]) => prevents(pod, node, view))?.[0]
}

/** kube-scheduler's message for a Pod that fits on no node: the nodes by reason, sorted as text. */
export function unschedulableMessage(reasons: readonly string[]): string {
  if (reasons.length === 0) return 'no nodes available to schedule pods'
  const counts = [...new Set(reasons)].map(
    (reason) => `${reasons.filter((own) => own === reason).length} ${reason}`,
  )
  return `0/${reasons.length} nodes are available: ${counts.sort().join(', ')}.`
}

/** The Pods of a node that have not ended. */
function podsOn({ metadata }: NodeObject, { pods }: SchedulingView): Pod[] {
  return pods.filter(({ spec }) => spec.nodeName === metadata.name)
}

// topologySpreadConstraints, as in the scheduler's PodTopologySpread plugin.

/**
 * Whether a DoNotSchedule constraint forbids the node: it lacks the key, or the skew would become
 * too large.
 */
function isTooUneven(pod: Pod, node: NodeObject, view: SchedulingView): boolean {
  return (pod.spec.topologySpreadConstraints ?? []).some((constraint) => {
    const { topologyKey, labelSelector, maxSkew, whenUnsatisfiable } = constraint
    if (whenUnsatisfiable !== 'DoNotSchedule') return false
    if (node.metadata.labels?.[topologyKey] === undefined) return true
    const eligible = view.nodes.filter(
      (other) => other.metadata.labels?.[topologyKey] && matchesNode(other, pod.spec),
    )
    const counts = eligible.map((other) => matchesInDomain(constraint, pod, other, view))
    const itself = matchesSelector(labelSelector, pod.metadata.labels) ? 1 : 0
    return matchesInDomain(constraint, pod, node, view) + itself - Math.min(...counts) > maxSkew
  })
}

// Anti-affinity, as in the scheduler's InterPodAffinity plugin.

const antiAffinityOf = ({ spec }: Pod) => spec.affinity?.podAntiAffinity

type Scope = Pick<AsJson<V1PodAffinityTerm>, 'topologyKey' | 'labelSelector' | 'namespaces'>

/**
 * The Pods in a node's domain that a term or constraint of `pod` selects, without those that are
 * being deleted.
 */
function matchesInDomain(
  { topologyKey, labelSelector, namespaces }: Scope,
  pod: Pod,
  node: NodeObject,
  view: SchedulingView,
): number {
  const domain = node.metadata.labels?.[topologyKey]
  const allowed = namespaces?.length ? namespaces : [pod.metadata.namespace]
  return view.nodes
    .filter(({ metadata }) => domain !== undefined && metadata.labels?.[topologyKey] === domain)
    .flatMap((other) => podsOn(other, view))
    .filter(
      (other) =>
        allowed.includes(other.metadata.namespace ?? '') &&
        !isTerminating(other) &&
        matchesSelector(labelSelector, other.metadata.labels),
    ).length
}

/**
 * What makes a node less suitable, the most important first: Pods that a rule keeps apart, Pods of
 * the same controller, all Pods.
 */
function penalties(pod: Pod, node: NodeObject, view: SchedulingView): number[] {
  const owner = controllerOf(pod)?.uid
  const soft = (pod.spec.topologySpreadConstraints ?? []).filter(
    ({ whenUnsatisfiable }) => whenUnsatisfiable === 'ScheduleAnyway',
  )
  const avoided = antiAffinityOf(pod)?.preferredDuringSchedulingIgnoredDuringExecution ?? []
  const scopes = [
    ...soft.map((scope) => ({ scope, weight: 1 })),
    ...avoided.map(({ podAffinityTerm, weight }) => ({ scope: podAffinityTerm, weight })),
  ]
  const siblings = podsOn(node, view).filter(
    (other) => owner !== undefined && controllerOf(other)?.uid === owner && !isTerminating(other),
  )
  return [
    scopes.reduce(
      (sum, { scope, weight }) => sum + weight * matchesInDomain(scope, pod, node, view),
      0,
    ),
    siblings.length,
    podsOn(node, view).length,
  ]
}

/**
 * The best of the nodes that a Pod fits on; of equal nodes the first by name, so that the decision
 * is deterministic.
 */
export function bestNode(
  pod: Pod,
  candidates: readonly NodeObject[],
  view: SchedulingView,
): NodeObject | undefined {
  const ranked = candidates.map((node) => ({
    node,
    ranks: [...penalties(pod, node, view), node.metadata.name],
  }))
  return ranked.sort((left, right) => compareRanks(left.ranks, right.ranks))[0]?.node
}
