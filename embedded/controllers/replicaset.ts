import { type ControllerContext, writeStatus } from './context.ts'
import { claim, watchOwned } from './ownership.ts'
import { PodControl } from './pod-control.ts'
import {
  byCreation,
  compareRanks,
  countsAbove0,
  hasReadyCondition,
  isActive,
  isTerminal,
  type Pod,
  type ReplicaSet,
} from './resources.ts'

/** Maintains the requested number of active Pods of each ReplicaSet. */
export function startReplicaSetController(context: ControllerContext): void {
  const { api } = context
  const control = new PodControl(api, 'replicaset-controller')

  const queue = context.reconcile<ReplicaSet>('replicasets', (replicaSet) => {
    const owned = () => claim<Pod>(api, replicaSet, 'pods')
    manage(control, replicaSet, owned().filter(isActive))
    writeStatus(api, 'replicasets', replicaSet, replicaSetStatus(replicaSet, owned()))
  })
  watchOwned(context, queue, 'pods', 'replicasets')
}

/** Creates or deletes Pods towards `spec.replicas`. */
function manage(control: PodControl, replicaSet: ReplicaSet, pods: readonly Pod[]): void {
  const wanted = replicaSet.spec.replicas ?? 1
  for (let count = pods.length; count < wanted; count++)
    control.create(replicaSet, replicaSet.spec.template ?? {})
  const surplus = Math.max(0, pods.length - wanted)
  for (const pod of deletionOrder(pods).slice(0, surplus)) control.delete(replicaSet, pod)
}

/**
 * The order in which scaling down deletes Pods, by the main criteria of pkg/controller's
 * ActivePodsWithRanks.
 */
export function deletionOrder(pods: readonly Pod[]): Pod[] {
  const ranks = (pod: Pod) => [
    pod.spec.nodeName ? 1 : 0,
    pod.status?.phase === 'Running' ? 1 : 0,
    hasReadyCondition(pod) ? 1 : 0,
    -pods.filter((other) => other.spec.nodeName === pod.spec.nodeName).length,
  ]
  return pods.toSorted(
    (left, right) => compareRanks(ranks(left), ranks(right)) || byCreation(right, left),
  )
}

function replicaSetStatus({ metadata }: ReplicaSet, pods: readonly Pod[]): ReplicaSet['status'] {
  const active = pods.filter(isActive)
  const ready = active.filter(hasReadyCondition).length
  return {
    replicas: active.length,
    observedGeneration: metadata.generation ?? 0,
    ...countsAbove0({
      readyReplicas: ready,
      availableReplicas: ready,
      terminatingReplicas: pods.filter((pod) => !isActive(pod) && !isTerminal(pod)).length,
    }),
  }
}
