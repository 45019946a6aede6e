import { hasLabels } from '../../../dataplane/label-selector.ts'
import type { Api } from '../../apiserver/api.ts'
import { controllerOf, inNamespaceOf } from '../ownership.ts'
import { isTerminating, type Node, type Pod, type Service } from '../resources.ts'
import { hostPortsAreFree, matchesNode, matchesTerm, type SchedulingView, tolerates, untolerated } from './node-fit.ts'
import {
  affinityScore,
  isAllowedByOthers,
  meetsAffinity,
  meetsAntiAffinity,
  softSpreadCount,
  spreadFault,
} from './pod-placement.ts'

/** Why a Pod can't go to a node. `lasting`: removing other Pods from the node would not help. */
export interface Refusal {
  reason: string
  lasting: boolean
}

type Filter = (pod: Pod, node: Node, snapshot: SchedulingView) => Refusal | undefined

const lasting = (reason: string): Refusal => ({ reason, lasting: true })
const passing = (reason: string): Refusal => ({ reason, lasting: false })

const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }
const defaultMaxPods = 110

// In the order and with the messages of kube-scheduler's default profile.
const filters: readonly Filter[] = [
  (pod, node) =>
    node.spec.unschedulable && !pod.spec.tolerations?.some((toleration) => tolerates(toleration, unschedulableTaint))
      ? lasting('node(s) were unschedulable')
      : undefined,
  (pod, node) =>
    untolerated(node, pod.spec.tolerations ?? [], ['NoSchedule', 'NoExecute']).length > 0
      ? lasting('node(s) had untolerated taint(s)')
      : undefined,
  (pod, node) =>
    matchesNode(node, pod.spec) ? undefined : lasting("node(s) didn't match Pod's node affinity/selector"),
  (pod, node, { byNode }) =>
    hostPortsAreFree(pod, podsOn(node, byNode))
      ? undefined
      : passing("node(s) didn't have free ports for the requested pod ports"),
  (_pod, node, { byNode }) =>
    podsOn(node, byNode).length < Number(node.status?.allocatable?.pods ?? defaultMaxPods)
      ? undefined
      : passing('Too many pods'),
  (pod, node, snapshot) => {
    const fault = spreadFault(pod, node, snapshot)
    const words = "node(s) didn't match pod topology spread constraints"
    if (fault === 'label') return lasting(`${words} (missing required label)`)
    return fault && passing(words)
  },
  (pod, node, snapshot) =>
    meetsAffinity(pod, node, snapshot) ? undefined : lasting("node(s) didn't match pod affinity rules"),
  (pod, node, snapshot) =>
    meetsAntiAffinity(pod, node, snapshot) ? undefined : passing("node(s) didn't match pod anti-affinity rules"),
  (pod, node, snapshot) =>
    isAllowedByOthers(pod, node, snapshot)
      ? undefined
      : passing("node(s) didn't satisfy existing pods anti-affinity rules"),
]

function podsOn(node: Node, byNode: SchedulingView['byNode']): Pod[] {
  return [...(byNode.get(node.metadata.name) ?? [])]
}

/** The first reason, in kube-scheduler's order of filters, why the Pod can't go to the node. */
export function refusal(pod: Pod, node: Node, snapshot: SchedulingView): Refusal | undefined {
  for (const filter of filters) {
    const found = filter(pod, node, snapshot)
    if (found) return found
  }
  return undefined
}

/**
 * kube-scheduler's message for a Pod that fits on no node: the nodes by reason, then that preemption does not help
 * (this cluster has no priorities, so there are never victims).
 */
export function unschedulableMessage(refusals: readonly Refusal[]): string {
  if (refusals.length === 0) return 'no nodes available to schedule pods'
  const intro = `0/${refusals.length} nodes are available:`
  const preemption = refusals.map(({ lasting }) =>
    lasting ? 'Preemption is not helpful for scheduling' : 'No preemption victims found for incoming pod',
  )
  const reasons = histogram(refusals.map(({ reason }) => reason))
  return `${intro} ${reasons}. preemption: ${intro} ${histogram(preemption)}.`
}

/** `2 this, 1 that`, sorted as text. */
function histogram(reasons: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  return [...counts]
    .map(([reason, count]) => `${count} ${reason}`)
    .sort()
    .join(', ')
}

/**
 * Returns the predicate for placed Pods that are spread with `pod`: those of the same controller, else those of the
 * same Services.
 */
export function siblingsOf(api: Api, pod: Pod): (other: Pod) => boolean {
  const owner = controllerOf(pod)?.uid
  if (owner) return (other) => controllerOf(other)?.uid === owner && !isTerminating(other)
  const selectors = api
    .list<Service>('services', inNamespaceOf(pod))
    .flatMap(({ spec: { selector } }) => (selector && Object.keys(selector).length > 0 ? [selector] : []))
    .filter((selector) => hasLabels(pod.metadata.labels, selector))
  if (selectors.length === 0) return () => false
  return (other) =>
    other.metadata.namespace === pod.metadata.namespace &&
    !isTerminating(other) &&
    selectors.every((selector) => hasLabels(other.metadata.labels, selector))
}

interface Score {
  /** kube-scheduler's weight of the corresponding plugin. */
  weight: number
  moreIsBetter: boolean
  of(pod: Pod, node: Node, snapshot: SchedulingView): number
}

function scores(isSibling: (other: Pod) => boolean): Score[] {
  return [
    {
      weight: 3,
      moreIsBetter: false,
      of: (pod, node) => untolerated(node, pod.spec.tolerations ?? [], ['PreferNoSchedule']).length,
    },
    {
      weight: 2,
      moreIsBetter: true,
      of: (pod, node) =>
        (pod.spec.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [])
          .filter(({ preference }) => matchesTerm(node, preference))
          .reduce((sum, { weight }) => sum + weight, 0),
    },
    {
      weight: 2,
      moreIsBetter: false,
      of: (pod, node, snapshot) =>
        pod.spec.topologySpreadConstraints?.length
          ? softSpreadCount(pod, node, snapshot)
          : podsOn(node, snapshot.byNode).filter(isSibling).length,
    },
    { weight: 2, moreIsBetter: true, of: affinityScore },
    {
      weight: 1,
      moreIsBetter: false,
      of: (_pod, node, { byNode }) => podsOn(node, byNode).length,
    },
  ]
}

/**
 * The best of the nodes that a Pod fits on: each score is stretched to 0…100 over the candidates and weighted as in
 * kube-scheduler's default profile. Of equal nodes the first by name is selected, so that the decision is
 * deterministic.
 */
export function bestNode(
  pod: Pod,
  candidates: readonly Node[],
  snapshot: SchedulingView,
  isSibling: (other: Pod) => boolean,
) {
  const totals = new Map(candidates.map((node) => [node, 0]))
  for (const score of scores(isSibling)) {
    const values = candidates.map((node) => score.of(pod, node, snapshot))
    const [low, high] = [Math.min(...values), Math.max(...values)]
    if (low === high) continue
    for (const [index, node] of candidates.entries()) {
      const share = ((values[index] ?? low) - low) / (high - low)
      const points = (score.moreIsBetter ? share : 1 - share) * 100 * score.weight
      totals.set(node, (totals.get(node) ?? 0) + points)
    }
  }
  return [...totals].sort(
    ([a, left], [b, right]) => right - left || (a.metadata.name < b.metadata.name ? -1 : 1),
  )[0]?.[0]
}
