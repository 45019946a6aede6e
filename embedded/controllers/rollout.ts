// The arithmetic of a Deployment's rollout, as in pkg/controller/deployment and its util package.
import type { V1DeploymentCondition } from '@kubernetes/client-node'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import {
  type AsJson,
  byCreation,
  countsAbove0,
  type Deployment,
  type ReplicaSet,
  withConditions,
} from './resources.ts'

/**
 * The objects of a rollout: the ReplicaSet of the current template (absent while a new one is
 * paused) and all others.
 */
export interface Rollout {
  deployment: Deployment
  current: ReplicaSet | undefined
  old: readonly ReplicaSet[]
}

export const desired = (set: { spec: { replicas?: number } }) => set.spec.replicas ?? 1
const available = ({ status }: ReplicaSet) => status?.availableReplicas
/** The sum of a number of each ReplicaSet. */
const total = (
  sets: readonly ReplicaSet[],
  count: (set: ReplicaSet) => number | undefined,
): number => sets.reduce((sum, set) => sum + (count(set) ?? 0), 0)

function allSets({ current, old }: Rollout): ReplicaSet[] {
  return current ? [...old, current] : [...old]
}

/** `3` or `"25%"` of `total`; a percentage is rounded by `round`. */
export function resolveCount(
  value: number | string | undefined,
  total: number,
  round: (count: number) => number,
): number {
  if (typeof value !== 'string') return value ?? 0
  return value.endsWith('%')
    ? round((Number.parseInt(value, 10) * total) / 100)
    : Number.parseInt(value, 10)
}

/**
 * The additional and the unavailable Pods that a rollout may have; if both were 0, one may be
 * unavailable, or it could not proceed.
 */
export function rolloutBounds({ spec }: Deployment): { surge: number; unavailable: number } {
  if (spec.strategy?.type === 'Recreate') return { surge: 0, unavailable: 0 }
  const replicas = spec.replicas ?? 1
  const { maxSurge = '25%', maxUnavailable = '25%' } = spec.strategy?.rollingUpdate ?? {}
  const surge = resolveCount(maxSurge, replicas, Math.ceil)
  const unavailable = resolveCount(maxUnavailable, replicas, Math.floor)
  return {
    surge,
    unavailable: Math.min(surge === 0 && unavailable === 0 ? 1 : unavailable, replicas),
  }
}

/**
 * The next sizes of ReplicaSets, by name: one step of the rollout. A paused one only follows its
 * number of replicas.
 */
export function nextSizes(rollout: Rollout): ReadonlyMap<string, number> {
  const { deployment, current, old } = rollout
  const { paused, strategy } = deployment.spec
  const replicas = desired(deployment)
  const all = (sets: readonly ReplicaSet[], size: number) =>
    sets.map(({ metadata }) => [metadata.name, size] as const)
  if (paused || !current) {
    const active = allSets(rollout).filter((set) => desired(set) > 0)
    const only = active.length > 1 ? undefined : (active[0] ?? current)
    return new Map(only ? all([only], replicas) : [])
  }
  if (strategy?.type === 'Recreate') {
    const oldPods = total(
      old,
      ({ status }) => (status?.replicas ?? 0) + (status?.terminatingReplicas ?? 0),
    )
    return new Map([...all(old, 0), ...all([current], oldPods > 0 ? desired(current) : replicas)])
  }
  const size = nextCurrentReplicas(rollout, current)
  const scaled = { ...current, spec: { ...current.spec, replicas: size } }
  return nextOldReplicas({ deployment, current: scaled, old }).set(current.metadata.name, size)
}

/**
 * The next size of the current ReplicaSet: as large as the surge allows, and not larger than
 * wanted.
 */
function nextCurrentReplicas(rollout: Rollout, current: ReplicaSet): number {
  const replicas = desired(rollout.deployment)
  const room = replicas + rolloutBounds(rollout.deployment).surge - total(allSets(rollout), desired)
  return Math.min(replicas, desired(current) + Math.max(0, room))
}

/**
 * The next sizes of the old ReplicaSets: unavailable Pods go first, then those of the oldest, while
 * minAvailable stay available.
 */
function nextOldReplicas(rollout: Rollout): Map<string, number> {
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

type DeploymentCondition = AsJson<V1DeploymentCondition>
type DeploymentStatus = NonNullable<Deployment['status']>

/**
 * The status of a Deployment: counts, and the conditions Available and Progressing with Kubernetes'
 * reasons.
 */
export function deploymentStatus(rollout: Rollout): DeploymentStatus {
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
  const isAvailable =
    availableReplicas >= desired(deployment) - rolloutBounds(deployment).unavailable
  const own = [
    isAvailable
      ? condition(
          'Available',
          'True',
          'MinimumReplicasAvailable',
          'Deployment has minimum availability.',
        )
      : condition(
          'Available',
          'False',
          'MinimumReplicasUnavailable',
          'Deployment does not have minimum availability.',
        ),
    progressOf(rollout, status),
  ]
  return { ...status, conditions: withConditions(deployment.status?.conditions, own) }
}

function condition(
  type: string,
  status: 'True' | 'False' | 'Unknown',
  reason: string,
  message: string,
): DeploymentCondition {
  return { type, status, reason, message, lastUpdateTime: timestamp() }
}

/**
 * The Progressing condition, which `kubectl rollout status` reads; progressDeadlineSeconds is not
 * enforced.
 */
function progressOf(
  { deployment, current }: Rollout,
  status: DeploymentStatus,
): DeploymentCondition {
  if (deployment.spec.paused)
    return condition('Progressing', 'Unknown', 'DeploymentPaused', 'Deployment is paused')
  const { updatedReplicas = 0, replicas = 0, availableReplicas = 0 } = status
  const isComplete = [updatedReplicas, replicas, availableReplicas].every(
    (count) => count === desired(deployment),
  )
  const name = current
    ? `ReplicaSet "${current.metadata.name}"`
    : `Deployment "${deployment.metadata.name}"`
  return isComplete
    ? condition(
        'Progressing',
        'True',
        'NewReplicaSetAvailable',
        `${name} has successfully progressed.`,
      )
    : condition('Progressing', 'True', 'ReplicaSetUpdated', `${name} is progressing.`)
}
