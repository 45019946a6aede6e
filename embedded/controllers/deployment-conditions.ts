import type { V1DeploymentCondition } from '@kubernetes/client-node'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import type { Deployment, Stored } from './resources.ts'
import { allSets, availableTotal, desired, type Rollout, rolloutBounds } from './rollout.ts'

export type Condition = Stored<V1DeploymentCondition>
export type DeploymentStatus = NonNullable<Deployment['status']>

/** kubectl and the API use the largest int32 for "no deadline". */
const noDeadline = 2 ** 31 - 1

export function conditionOf(status: DeploymentStatus | undefined, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type)
}

export function condition(
  type: string,
  status: 'True' | 'False' | 'Unknown',
  reason: string,
  message: string,
): Condition {
  const now = timestamp()
  return { type, status, reason, message, lastUpdateTime: now, lastTransitionTime: now }
}

/** Sets a condition; an equal status and reason change nothing, an equal status keeps its transition time. */
export function setCondition(status: DeploymentStatus, next: Condition): void {
  const before = conditionOf(status, next.type)
  if (before?.status === next.status && before.reason === next.reason) return
  removeCondition(status, next.type)
  const lastTransitionTime = before?.status === next.status ? before.lastTransitionTime : next.lastTransitionTime
  status.conditions = [...(status.conditions ?? []), { ...next, ...(lastTransitionTime && { lastTransitionTime }) }]
}

function removeCondition(status: DeploymentStatus, type: string): void {
  status.conditions = (status.conditions ?? []).filter((condition) => condition.type !== type)
}

export function hasDeadline({ spec }: Deployment): boolean {
  return spec.progressDeadlineSeconds !== undefined && spec.progressDeadlineSeconds !== noDeadline
}

/** Counts and the Available condition, from the current ReplicaSets. */
export function countedStatus(rollout: Rollout): DeploymentStatus {
  const { deployment, current } = rollout
  const sets = allSets(rollout)
  const total = (field: 'replicas' | 'readyReplicas') =>
    sets.reduce((sum, { status }) => sum + (status?.[field] ?? 0), 0)
  const available = availableTotal(sets)
  const counts = {
    replicas: total('replicas'),
    updatedReplicas: current?.status?.replicas ?? 0,
    readyReplicas: total('readyReplicas'),
    availableReplicas: available,
    unavailableReplicas: Math.max(0, sets.reduce((sum, set) => sum + desired(set), 0) - available),
  }
  const status: DeploymentStatus = {
    observedGeneration: deployment.metadata.generation ?? 0,
    ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)),
    ...(deployment.status?.collisionCount && { collisionCount: deployment.status.collisionCount }),
    conditions: [...(deployment.status?.conditions ?? [])],
  }
  const enough = available >= desired(deployment) - rolloutBounds(deployment).unavailable
  setCondition(
    status,
    enough
      ? condition('Available', 'True', 'MinimumReplicasAvailable', 'Deployment has minimum availability.')
      : condition('Available', 'False', 'MinimumReplicasUnavailable', 'Deployment does not have minimum availability.'),
  )
  return status
}

/**
 * True if all replicas run the current template and are available, for which `kubectl rollout status` waits.
 */
export function isComplete(deployment: Deployment, status: DeploymentStatus): boolean {
  const replicas = desired(deployment)
  const { updatedReplicas = 0, replicas: total = 0, availableReplicas = 0, observedGeneration = 0 } = status
  return (
    updatedReplicas === replicas &&
    total === replicas &&
    availableReplicas === replicas &&
    observedGeneration >= (deployment.metadata.generation ?? 0)
  )
}

function isProgressing({ status: before }: Deployment, now: DeploymentStatus): boolean {
  const count = (value: number | undefined) => value ?? 0
  const oldPods = (status: DeploymentStatus | undefined) => count(status?.replicas) - count(status?.updatedReplicas)
  return (
    count(now.updatedReplicas) > count(before?.updatedReplicas) ||
    oldPods(now) < oldPods(before) ||
    count(now.readyReplicas) > count(before?.readyReplicas) ||
    count(now.availableReplicas) > count(before?.availableReplicas)
  )
}

/**
 * Milliseconds until the rollout has made no progress for progressDeadlineSeconds; undefined if there is no
 * deadline.
 */
export function deadlineIn(deployment: Deployment, status: DeploymentStatus, now: number): number | undefined {
  const progressing = conditionOf(status, 'Progressing')
  if (!hasDeadline(deployment) || !progressing || isComplete(deployment, status)) return undefined
  if (progressing.reason === 'NewReplicaSetAvailable' || progressing.reason === timedOutReason) return undefined
  const since = Date.parse(progressing.lastUpdateTime ?? progressing.lastTransitionTime ?? '')
  return since + (deployment.spec.progressDeadlineSeconds ?? 600) * 1000 - now
}

const timedOutReason = 'ProgressDeadlineExceeded'

/**
 * The status of a rollout in progress: counts, Available, Progressing with Kubernetes' reasons,
 * ReplicaFailure.
 */
export function rolloutStatus(rollout: Rollout, now: number): DeploymentStatus {
  const { deployment, current } = rollout
  const status = countedStatus(rollout)
  const before = conditionOf(deployment.status, 'Progressing')
  const name = current ? `ReplicaSet "${current.metadata.name}"` : `Deployment "${deployment.metadata.name}"`
  const settled = status.replicas === status.updatedReplicas && before?.reason === 'NewReplicaSetAvailable'
  if (!hasDeadline(deployment)) removeCondition(status, 'Progressing')
  else if (!settled) {
    const left = deadlineIn(deployment, status, now)
    if (isComplete(deployment, status)) {
      setCondition(
        status,
        condition('Progressing', 'True', 'NewReplicaSetAvailable', `${name} has successfully progressed.`),
      )
    } else if (isProgressing(deployment, status)) {
      const progress = condition('Progressing', 'True', 'ReplicaSetUpdated', `${name} is progressing.`)
      // Removed first, because progress must update lastUpdateTime, from which the deadline is computed.
      removeCondition(status, 'Progressing')
      setCondition(status, {
        ...progress,
        ...(before?.status === 'True' &&
          before.lastTransitionTime && { lastTransitionTime: before.lastTransitionTime }),
      })
    } else if (left !== undefined && left <= 0) {
      setCondition(status, condition('Progressing', 'False', timedOutReason, `${name} has timed out progressing.`))
    }
  }
  const failure = allSets(rollout)
    .flatMap(({ status: setStatus }) => setStatus?.conditions ?? [])
    .find(({ type }) => type === 'ReplicaFailure')
  if (failure) {
    setCondition(status, condition('ReplicaFailure', 'True', failure.reason ?? 'FailedCreate', failure.message ?? ''))
  } else removeCondition(status, 'ReplicaFailure')
  return status
}
