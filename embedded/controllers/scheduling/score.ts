import { hasLabels } from '../../../dataplane/label-selector.ts'
import type { Api } from '../../apiserver/api.ts'
import { controllerOf, inNamespaceOf } from '../ownership.ts'
import { isTerminating } from '../pod-condition.ts'
import type { Node, Pod, Service } from '../resources.ts'
import { affinityScore } from './inter-pod-affinity.ts'
import { matchesTerm } from './node-affinity.ts'
import type { SchedulingView } from './snapshot.ts'
import { untolerated } from './taints.ts'
import { softSpreadCrowd } from './topology-spread.ts'

/** Tells which placed Pods belong together with `pod`: of the same controller, or else behind the same Services. */
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
  /** kube-scheduler's weight of the plugin that asks the same question. */
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
          ? softSpreadCrowd(pod, node, snapshot)
          : (snapshot.byNode.get(node.metadata.name) ?? []).filter((other) => isSibling(other.pod)).length,
    },
    { weight: 2, moreIsBetter: true, of: affinityScore },
    {
      weight: 1,
      moreIsBetter: false,
      of: (_pod, node, { byNode }) => (byNode.get(node.metadata.name) ?? []).length,
    },
  ]
}

/**
 * The best of the nodes that a Pod fits on: each score is stretched to 0…100 over the candidates and weighted as in
 * kube-scheduler's default profile. Of equals the first by name wins, so that the same cluster decides the same again.
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
