// The arithmetic of a Deployment's rollout, as in pkg/controller/deployment and its util package.
import type { V1DeploymentCondition } from '@kubernetes/client-node'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { byCreation, countsAbove0, type Deployment, type ReplicaSet, type Stored } from './resources.ts'

/** The objects of a rollout: the ReplicaSet of the current template (absent before it is created) and all others. */
export interface Rollout {
  deployment: Deployment
  current: ReplicaSet | undefined
  old: readonly ReplicaSet[]
}

export const desired = (set: { spec: { replicas?: number } }) => set.spec.replicas ?? 1
const available = ({ status }: ReplicaSet) => status?.availableReplicas
/** The sum of a number of each ReplicaSet. */
const total = (sets: readonly ReplicaSet[], count: (set: ReplicaSet) => number | undefined): number =>
  sets.reduce((sum, set) => sum + (count(set) ?? 0), 0)

export function allSets({ current, old }: Rollout): ReplicaSet[] {
  return current ? [...old, current] : [...old]
}

/** `3` or `"25%"` of `total`; a percentage is rounded by `round`. */
export function countOf(value: number | string | undefined, total: number, round: (count: number) => number): number {
  if (typeof value !== 'string') return value ?? 0
  return value.endsWith('%') ? round((Number.parseInt(value, 10) * total) / 100) : Number.parseInt(value, 10)
}

/**
 * The number of additional Pods and of unavailable Pods that a rollout may have: surge rounds up, unavailability down; if
 * both are 0, one Pod may be unavailable, because the rollout could not proceed otherwise.
 */
export function rolloutBounds({ spec }: Deployment): { surge: number; unavailable: number } {
  if (spec.strategy?.type === 'Recreate') return { surge: 0, unavailable: 0 }
  const replicas = spec.replicas ?? 1
  const { maxSurge = '25%', maxUnavailable = '25%' } = spec.strategy?.rollingUpdate ?? {}
  const surge = countOf(maxSurge, replicas, Math.ceil)
  const unavailable = countOf(maxUnavailable, replicas, Math.floor)
  return { surge, unavailable: Math.min(surge === 0 && unavailable === 0 ? 1 : unavailable, replicas) }
}

/** The next size of the current ReplicaSet: as large as the surge allows. Never scales down. */
export function nextCurrentReplicas(rollout: Rollout): number {
  const { deployment, current } = rollout
  const replicas = desired(deployment)
  if (deployment.spec.strategy?.type === 'Recreate') return replicas
  const now = current ? desired(current) : 0
  const room = replicas + rolloutBounds(deployment).surge - total(allSets(rollout), desired)
  return room <= 0 ? now : now + Math.max(0, Math.min(room, replicas - now))
}

/**
 * The next sizes of the old ReplicaSets, by name, so that at least the desired number minus maxUnavailable Pods stay
 * available. Unavailable Pods are removed first, then those of the oldest ReplicaSet.
 */
export function nextOldReplicas(rollout: Rollout): Map<string, number> {
  const { deployment, current, old } = rollout
  const next = new Map<string, number>()
  const minAvailable = desired(deployment) - rolloutBounds(deployment).unavailable
  const currentUnavailable = current ? desired(current) - (available(current) ?? 0) : 0
  let mayGo = total(allSets(rollout), desired) - minAvailable - currentUnavailable
  const oldestFirst = old.filter((set) => desired(set) > 0).sort(byCreation)
  for (const set of oldestFirst) {
    const unhealthy = Math.max(0, desired(set) - (available(set) ?? 0))
    const going = Math.min(unhealthy, Math.max(0, mayGo))
    next.set(set.metadata.name, desired(set) - going)
    mayGo -= going
  }
  let surplus = Math.min(mayGo, total(allSets(rollout), available) - minAvailable)
  for (const set of oldestFirst) {
    const left = next.get(set.metadata.name) ?? 0
    const going = Math.min(left, Math.max(0, surplus))
    next.set(set.metadata.name, left - going)
    surplus -= going
  }
  return next
}

// The status of a Deployment.

type Condition = Stored<V1DeploymentCondition>
type DeploymentStatus = NonNullable<Deployment['status']>

export function conditionOf(status: DeploymentStatus | undefined, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type)
}

/** The status of a Deployment: counts, Available, Progressing with Kubernetes' reasons, ReplicaFailure. */
export function statusOf(rollout: Rollout): DeploymentStatus {
  const { deployment, current } = rollout
  const sets = allSets(rollout)
  const availableReplicas = total(sets, available)
  const status: DeploymentStatus = {
    observedGeneration: deployment.metadata.generation ?? 0,
    ...countsAbove0({
      replicas: total(sets, ({ status }) => status?.replicas),
      updatedReplicas: current?.status?.replicas ?? 0,
      readyReplicas: total(sets, ({ status }) => status?.readyReplicas),
      availableReplicas,
      unavailableReplicas: total(sets, desired) - availableReplicas,
    }),
  }
  const isAvailable = availableReplicas >= desired(deployment) - rolloutBounds(deployment).unavailable
  const failure = sets.flatMap(({ status }) => status?.conditions ?? []).find(({ type }) => type === 'ReplicaFailure')
  const next = [
    isAvailable
      ? condition('Available', 'True', 'MinimumReplicasAvailable', 'Deployment has minimum availability.')
      : condition('Available', 'False', 'MinimumReplicasUnavailable', 'Deployment does not have minimum availability.'),
    progressOf(rollout, status),
    ...(failure ? [condition('ReplicaFailure', 'True', failure.reason ?? '', failure.message ?? '')] : []),
  ]
  status.conditions = next.map((own) => withEarlierTimes(own, conditionOf(deployment.status, own.type)))
  return status
}

function condition(type: string, status: 'True' | 'False' | 'Unknown', reason: string, message: string): Condition {
  const now = timestamp()
  return { type, status, reason, message, lastUpdateTime: now, lastTransitionTime: now }
}

/** An equal condition keeps its times, so that it is not written again; an equal status keeps its transition time. */
function withEarlierTimes(next: Condition, before: Condition | undefined): Condition {
  if (before?.status !== next.status) return next
  if (before.reason === next.reason && before.message === next.message) return before
  return { ...next, ...(before.lastTransitionTime && { lastTransitionTime: before.lastTransitionTime }) }
}

/** The Progressing condition, which `kubectl rollout status` reads; progressDeadlineSeconds is not enforced. */
function progressOf({ deployment, current }: Rollout, status: DeploymentStatus): Condition {
  if (deployment.spec.paused) return condition('Progressing', 'Unknown', 'DeploymentPaused', 'Deployment is paused')
  const { updatedReplicas = 0, replicas = 0, availableReplicas = 0 } = status
  const isComplete = [updatedReplicas, replicas, availableReplicas].every((count) => count === desired(deployment))
  const name = current ? `ReplicaSet "${current.metadata.name}"` : `Deployment "${deployment.metadata.name}"`
  return isComplete
    ? condition('Progressing', 'True', 'NewReplicaSetAvailable', `${name} has successfully progressed.`)
    : condition('Progressing', 'True', 'ReplicaSetUpdated', `${name} is progressing.`)
}
