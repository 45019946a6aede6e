import type { V1ReplicaSetCondition } from '@kubernetes/client-node'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { messageOf } from '../apiserver/status-error.ts'
import { type ControllerContext, writeStatus } from './context.ts'
import { claim, watchOwned } from './ownership.ts'
import { PodControl } from './pod-control.ts'
import {
  byCreation,
  compareRanks,
  countsAbove0,
  isActive,
  isReady,
  type Pod,
  type ReplicaSet,
  type Stored,
} from './resources.ts'

/** Maintains the requested number of active Pods of each ReplicaSet. */
export function startReplicaSetController(context: ControllerContext): void {
  const { api } = context
  const control = new PodControl(api, context.recorder('replicaset-controller'))

  const queue = context.reconcile<ReplicaSet>('replicasets', (replicaSet) => {
    const active = () => claim<Pod>(api, replicaSet, 'pods').filter(isActive)
    const failure = replicaSet.metadata.deletionTimestamp ? undefined : manage(control, replicaSet, active())
    writeStatus(api, 'replicasets', replicaSet, statusOf(replicaSet, active(), failure))
    if (failure) throw failure
  })
  watchOwned(context, queue, 'pods', 'replicasets')
}

/** Creates or deletes Pods towards `spec.replicas`; returns the error that stopped it. */
function manage(control: PodControl, replicaSet: ReplicaSet, pods: readonly Pod[]): unknown {
  const wanted = replicaSet.spec.replicas ?? 1
  try {
    for (let count = pods.length; count < wanted; count++) control.create(replicaSet, replicaSet.spec.template ?? {})
    const surplus = Math.max(0, pods.length - wanted)
    for (const pod of deletionOrder(pods).slice(0, surplus)) control.delete(replicaSet, pod)
    return undefined
  } catch (error) {
    return error
  }
}

/**
 * The Pods in the order in which scaling down deletes them, by the main criteria of pkg/controller's ActivePodsWithRanks:
 * unassigned before assigned, Pending before Running, not ready before ready, those on a node with more of them, newer.
 */
export function deletionOrder(pods: readonly Pod[]): Pod[] {
  const ranks = (pod: Pod) => [
    pod.spec.nodeName ? 1 : 0,
    pod.status?.phase === 'Running' ? 1 : 0,
    isReady(pod) ? 1 : 0,
    -pods.filter((other) => other.spec.nodeName === pod.spec.nodeName).length,
  ]
  return pods.toSorted((left, right) => compareRanks(ranks(left), ranks(right)) || byCreation(right, left))
}

function statusOf(replicaSet: ReplicaSet, pods: readonly Pod[], failure: unknown): ReplicaSet['status'] {
  const { replicas = 1 } = replicaSet.spec
  const before = replicaSet.status?.conditions ?? []
  const conditions = before.filter(({ type }) => type !== 'ReplicaFailure')
  if (failure) {
    const earlier = before.find(({ type }) => type === 'ReplicaFailure')
    const condition: Stored<V1ReplicaSetCondition> = {
      type: 'ReplicaFailure',
      status: 'True',
      reason: pods.length < replicas ? 'FailedCreate' : 'FailedDelete',
      message: messageOf(failure),
      lastTransitionTime: earlier?.lastTransitionTime ?? timestamp(),
    }
    conditions.push(condition)
  }
  return {
    replicas: pods.length,
    ...countsAbove0({
      readyReplicas: pods.filter(isReady).length,
      availableReplicas: pods.filter(isReady).length,
    }),
    observedGeneration: replicaSet.metadata.generation ?? 0,
    ...(conditions.length > 0 && { conditions }),
  }
}
