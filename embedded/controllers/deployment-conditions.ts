import type { V1DeploymentCondition } from '@kubernetes/client-node'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { countsAbove0, type Deployment, type Stored } from './resources.ts'
import { allSets, availableTotal, desired, type Rollout, rolloutBounds } from './rollout.ts'

type Condition = Stored<V1DeploymentCondition>
type DeploymentStatus = NonNullable<Deployment['status']>

export function conditionOf(status: DeploymentStatus | undefined, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type)
}

/** True if all replicas run the current template and are available, for which `kubectl rollout status` waits. */
export function isComplete(deployment: Deployment, status: DeploymentStatus): boolean {
  const { updatedReplicas = 0, replicas = 0, availableReplicas = 0 } = status
  return [updatedReplicas, replicas, availableReplicas].every((count) => count === desired(deployment))
}

/** Milliseconds until the rollout has made no progress for progressDeadlineSeconds; undefined if none is under way. */
export function deadlineIn(
  { spec }: Deployment,
  status: DeploymentStatus | undefined,
  now: number,
): number | undefined {
  const progressing = conditionOf(status, 'Progressing')
  if (progressing?.reason !== 'ReplicaSetUpdated') return undefined
  return Date.parse(progressing.lastUpdateTime ?? '') + (spec.progressDeadlineSeconds ?? 600) * 1000 - now
}

/** The status of a Deployment: counts, Available, Progressing with Kubernetes' reasons, ReplicaFailure. */
export function statusOf(rollout: Rollout, now: number): DeploymentStatus {
  const { deployment, current } = rollout
  const sets = allSets(rollout)
  const total = (count: (set: (typeof sets)[number]) => number | undefined) =>
    sets.reduce((sum, set) => sum + (count(set) ?? 0), 0)
  const available = availableTotal(sets)
  const status: DeploymentStatus = {
    observedGeneration: deployment.metadata.generation ?? 0,
    ...countsAbove0({
      replicas: total(({ status }) => status?.replicas),
      updatedReplicas: current?.status?.replicas ?? 0,
      readyReplicas: total(({ status }) => status?.readyReplicas),
      availableReplicas: available,
      unavailableReplicas: total(desired) - available,
    }),
  }
  const isAvailable = available >= desired(deployment) - rolloutBounds(deployment).unavailable
  const failure = sets.flatMap(({ status }) => status?.conditions ?? []).find(({ type }) => type === 'ReplicaFailure')
  const next = [
    isAvailable
      ? condition('Available', 'True', 'MinimumReplicasAvailable', 'Deployment has minimum availability.')
      : condition('Available', 'False', 'MinimumReplicasUnavailable', 'Deployment does not have minimum availability.'),
    progressOf(rollout, status, now),
    ...(failure ? [condition('ReplicaFailure', 'True', failure.reason ?? '', failure.message ?? '')] : []),
  ]
  status.conditions = next.map((own) => withEarlierTimes(own, conditionOf(deployment.status, own.type)))
  return status
}

function condition(type: string, status: 'True' | 'False' | 'Unknown', reason: string, message: string): Condition {
  const now = timestamp()
  return { type, status, reason, message, lastUpdateTime: now, lastTransitionTime: now }
}

/** An equal status keeps its transition time; an equal reason keeps all, except of progress, whose update has a new time. */
function withEarlierTimes(next: Condition, before: Condition | undefined): Condition {
  if (before?.status !== next.status) return next
  if (before.reason === next.reason && next.reason !== 'ReplicaSetUpdated') return before
  return { ...next, ...(before.lastTransitionTime && { lastTransitionTime: before.lastTransitionTime }) }
}

/** The Progressing condition; the earlier one while nothing changes. */
function progressOf({ deployment, current }: Rollout, status: DeploymentStatus, now: number): Condition {
  const before = conditionOf(deployment.status, 'Progressing')
  if (deployment.spec.paused) return condition('Progressing', 'Unknown', 'DeploymentPaused', 'Deployment is paused')
  const name = current ? `ReplicaSet "${current.metadata.name}"` : `Deployment "${deployment.metadata.name}"`
  if (isComplete(deployment, status))
    return condition('Progressing', 'True', 'NewReplicaSetAvailable', `${name} has successfully progressed.`)
  const isRolledOut = before?.reason === 'NewReplicaSetAvailable' && status.replicas === status.updatedReplicas
  const isUnderWay = before?.reason === 'ReplicaSetUpdated' || before?.reason === 'ProgressDeadlineExceeded'
  const isUnchanged = isRolledOut || (isUnderWay && !hasProgressed(deployment.status, status))
  if (!before || !isUnchanged) return condition('Progressing', 'True', 'ReplicaSetUpdated', `${name} is progressing.`)
  if ((deadlineIn(deployment, deployment.status, now) ?? 1) > 0) return before
  return condition('Progressing', 'False', 'ProgressDeadlineExceeded', `${name} has timed out progressing.`)
}

function hasProgressed(before: DeploymentStatus | undefined, now: DeploymentStatus): boolean {
  const grown = (['updatedReplicas', 'readyReplicas', 'availableReplicas'] as const).some(
    (count) => (now[count] ?? 0) > (before?.[count] ?? 0),
  )
  const oldPods = (status: DeploymentStatus | undefined) => (status?.replicas ?? 0) - (status?.updatedReplicas ?? 0)
  return grown || oldPods(now) < oldPods(before)
}
