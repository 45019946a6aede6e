import type { V1ReplicaSetCondition } from '@kubernetes/client-node'
import { hasLabels } from '../../dataplane/label-selector.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { messageOf } from '../apiserver/status-error.ts'
import { type ControllerContext, writeStatus } from './context.ts'
import { claim, controllerOf, inNamespaceOf, isControlledBy, watchOwned } from './ownership.ts'
import { createPodControl, deletionOrder, type PodControl } from './pod-control.ts'
import { countsAbove0, isActive, isReady, type Pod, type ReplicaSet, type Stored } from './resources.ts'

// pkg/controller/replicaset: the maximum number of Pods created or deleted in one sync.
const burst = 500

/** Maintains the requested number of active Pods of each ReplicaSet. */
export function startReplicaSetController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('replicaset-controller')
  const podControl = createPodControl(context, recorder)

  const queue = context.reconcile<ReplicaSet>('replicasets', (replicaSet) => {
    const pods = claim<Pod>(api, replicaSet, 'pods', isActive)
    const failure = replicaSet.metadata.deletionTimestamp ? undefined : manage(context, podControl, replicaSet, pods)
    const own = api
      .list<Pod>('pods', inNamespaceOf(replicaSet))
      .filter((pod) => isActive(pod) && isControlledBy(pod, replicaSet))
    writeStatus(api, 'replicasets', replicaSet, statusOf(replicaSet, own, failure))
    if (failure) throw failure
  })
  watchOwned(context, queue, 'pods', { resource: 'replicasets', kind: 'ReplicaSet' })
}

/** Creates or deletes Pods towards `spec.replicas`; returns the error that stopped it. */
function manage({ api }: ControllerContext, control: PodControl, replicaSet: ReplicaSet, pods: Pod[]): unknown {
  const wanted = replicaSet.spec.replicas ?? 1
  try {
    for (let missing = Math.min(wanted - pods.length, burst); missing > 0; missing--) {
      control.create(replicaSet, replicaSet.spec.template ?? {})
    }
    const surplus = Math.min(pods.length - wanted, burst)
    if (surplus > 0) {
      const order = deletionOrder(pods, relatedPods(api, replicaSet), Date.now())
      for (const pod of order.slice(0, surplus)) control.delete(replicaSet, pod)
    }
    return undefined
  } catch (error) {
    return error
  }
}

/**
 * The active Pods of all ReplicaSets of the same Deployment: scaling down starts on the nodes with most of them.
 */
function relatedPods(api: ControllerContext['api'], replicaSet: ReplicaSet): Pod[] {
  const options = inNamespaceOf(replicaSet)
  const parent = controllerOf(replicaSet)?.uid
  const siblings = api
    .list<ReplicaSet>('replicasets', options)
    .filter(
      (other) => other.metadata.uid === replicaSet.metadata.uid || (parent && controllerOf(other)?.uid === parent),
    )
  const owners = new Set(siblings.map(({ metadata }) => metadata.uid))
  return api.list<Pod>('pods', options).filter((pod) => isActive(pod) && owners.has(controllerOf(pod)?.uid ?? ''))
}

function statusOf(replicaSet: ReplicaSet, pods: readonly Pod[], failure: unknown): ReplicaSet['status'] {
  const { replicas = 1, template } = replicaSet.spec
  const templateLabels = template?.metadata?.labels ?? {}
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
      fullyLabeledReplicas: pods.filter(({ metadata }) => hasLabels(metadata.labels, templateLabels)).length,
      readyReplicas: pods.filter(isReady).length,
      availableReplicas: pods.filter(isReady).length,
    }),
    observedGeneration: replicaSet.metadata.generation ?? 0,
    ...(conditions.length > 0 && { conditions }),
  }
}
