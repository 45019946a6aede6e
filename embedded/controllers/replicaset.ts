import type { V1ReplicaSetCondition } from '@kubernetes/client-node'
import { hasLabels, selectsEverything } from '../../dataplane/label-selector.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { messageOf } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf, splitKey, writeStatus } from './context.ts'
import { claim, controllerOf, inNamespaceOf, isControlledBy, wouldClaim } from './ownership.ts'
import { createPodControl, deletionOrder, type PodControl } from './pod-control.ts'
import { availableIn, isActive, isAvailable, isReady, type Pod, type ReplicaSet, type Stored } from './resources.ts'

// pkg/controller/replicaset: the maximum number of Pods created or deleted in one sync.
const burst = 500

/** Maintains the requested number of active Pods of each ReplicaSet. */
export function startReplicaSetController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('replicaset-controller')
  const podControl = createPodControl(context, recorder)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const replicaSet = api.get<ReplicaSet>('replicasets', namespace, name)
    if (!replicaSet) return
    if (selectsEverything(replicaSet.spec.selector)) {
      recorder.event(replicaSet, 'Warning', 'SelectingAll', 'This controller is selecting all pods.')
      return
    }
    const pods = claim<Pod>(api, replicaSet, 'pods', isActive)
    const failure = replicaSet.metadata.deletionTimestamp ? undefined : manage(context, podControl, replicaSet, pods)
    const own = api
      .list<Pod>('pods', inNamespaceOf(replicaSet))
      .filter((pod) => isActive(pod) && isControlledBy(pod, replicaSet))
    writeStatus(api, 'replicasets', replicaSet, statusOf(replicaSet, own, failure))
    const { minReadySeconds = 0 } = replicaSet.spec
    const waits = own.map((pod) => availableIn(pod, minReadySeconds, Date.now()))
    const next = Math.min(...waits.filter((wait) => wait > 0 && wait < Number.POSITIVE_INFINITY))
    if (next < Number.POSITIVE_INFINITY) queue.addAfter(key, next)
    if (failure) throw failure
  })

  context.watch<ReplicaSet>('replicasets', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  context.watch<Pod>('pods', ({ object, previous }) => {
    for (const pod of previous ? [previous, object] : [object]) {
      const owner = controllerOf(pod)
      if (owner?.kind === 'ReplicaSet') queue.add(`${pod.metadata.namespace}/${owner.name}`)
    }
    if (controllerOf(object)) return
    for (const replicaSet of api.list<ReplicaSet>('replicasets', inNamespaceOf(object))) {
      if (wouldClaim(replicaSet, object.metadata.labels)) queue.add(keyOf(replicaSet))
    }
  })
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
 * The active Pods of all ReplicaSets of the same Deployment: scaling down starts on the nodes with most of
 * them.
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
  const { minReadySeconds = 0, replicas = 1, template } = replicaSet.spec
  const now = Date.now()
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
      availableReplicas: pods.filter((pod) => isAvailable(pod, minReadySeconds, now)).length,
    }),
    observedGeneration: replicaSet.metadata.generation ?? 0,
    ...(conditions.length > 0 && { conditions }),
  }
}

/** Kubernetes omits counts of 0 from a status (omitempty). */
function countsAbove0<T extends Record<string, number>>(counts: T): Partial<T> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)) as Partial<T>
}
