import { selectsEverything } from '../../dataplane/label-selector.ts'
import { hasReason, messageOf } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf, splitKey, writeStatus } from './context.ts'
import {
  condition,
  conditionOf,
  countedStatus,
  type DeploymentStatus,
  deadlineIn,
  hasDeadline,
  isComplete,
  rolloutStatus,
  setCondition,
} from './deployment-conditions.ts'
import {
  cleanUpHistory,
  createReplicaSet,
  createScaler,
  desiredBefore,
  findCurrent,
  maximumBefore,
  type Scaler,
  syncRevision,
} from './deployment-replicasets.ts'
import { claim, controllerOf, inNamespaceOf, isControlledBy, wouldClaim } from './ownership.ts'
import { type Deployment, isTerminal, type Pod, type ReplicaSet } from './resources.ts'
import {
  allSets,
  byCreation,
  desired,
  desiredTotal,
  nextCurrentReplicas,
  nextOldReplicas,
  proportionalReplicas,
  type Rollout,
} from './rollout.ts'

/** Rolls Deployments out through ReplicaSets, step by step as their Pods become available. */
export function startDeploymentController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('deployment-controller')
  const scaler = createScaler(context, recorder)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const stored = api.get<Deployment>('deployments', namespace, name)
    if (!stored) return
    if (selectsEverything(stored.spec.selector)) {
      const message = 'This deployment is selecting all pods. A non-empty selector is required.'
      recorder.event(stored, 'Warning', 'SelectingAll', message)
      return
    }
    const sets = claim<ReplicaSet>(api, stored, 'replicasets')
    const deployment = notePause(context, stored)
    const rollout = syncRevision(context, { deployment, ...split(deployment, sets) })
    const status = sync(rollout)
    if (!status) return
    const wait = deadlineIn(deployment, status, Date.now())
    if (wait !== undefined && wait > 0) queue.addAfter(key, wait)
  })

  function sync(rollout: Rollout): DeploymentStatus | undefined {
    const { deployment } = rollout
    if (deployment.metadata.deletionTimestamp) return save(deployment, countedStatus(rollout))
    if (deployment.spec.paused || wasResized(rollout)) {
      const scaled = rescale(scaler, rollout)
      if (deployment.spec.paused) cleanUpHistory(context, scaled)
      return save(deployment, countedStatus(scaled))
    }
    try {
      const next = deployment.spec.strategy?.type === 'Recreate' ? recreate(rollout) : roll(rollout)
      const status = rolloutStatus(next, Date.now())
      if (isComplete(deployment, status)) cleanUpHistory(context, next)
      return save(deployment, status)
    } catch (error) {
      noteFailure(deployment, error)
      throw error
    }
  }

  function roll(rollout: Rollout): Rollout {
    const withCurrent = rollout.current ? rollout : createReplicaSet(context, recorder, rollout)
    const { current } = withCurrent
    if (!current) return withCurrent
    const replicas = desired(rollout.deployment)
    const next = desired(current) > replicas ? replicas : nextCurrentReplicas(withCurrent)
    const up = scaler.scale(withCurrent, new Map([[current.metadata.name, next]]))
    return scaler.scale(up, nextOldReplicas(up))
  }

  function recreate(rollout: Rollout): Rollout {
    const down = scaler.scale(rollout, new Map(rollout.old.map(({ metadata }) => [metadata.name, 0])))
    if (oldPodsRemain(down)) return down
    const withCurrent = down.current ? down : createReplicaSet(context, recorder, down)
    const name = withCurrent.current?.metadata.name
    return name ? scaler.scale(withCurrent, new Map([[name, desired(rollout.deployment)]])) : withCurrent
  }

  function oldPodsRemain({ deployment, old }: Rollout): boolean {
    return api
      .list<Pod>('pods', inNamespaceOf(deployment))
      .some((pod) => !isTerminal(pod) && old.some((set) => isControlledBy(pod, set)))
  }

  function noteFailure(deployment: Deployment, error: unknown) {
    // A conflict is retried immediately and not recorded as a failure.
    if (hasReason(error, 'AlreadyExists') || hasReason(error, 'Conflict') || !hasDeadline(deployment)) return
    const { namespace, name } = deployment.metadata
    const status = structuredClone(api.get<Deployment>('deployments', namespace, name)?.status) ?? {}
    setCondition(status, condition('Progressing', 'False', 'ReplicaSetCreateError', messageOf(error)))
    save(deployment, status)
  }

  function save(deployment: Deployment, status: DeploymentStatus): DeploymentStatus | undefined {
    return writeStatus(api, 'deployments', deployment, status)?.status
  }

  context.watch<Deployment>('deployments', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  context.watch<ReplicaSet>('replicasets', ({ object, previous }) => {
    for (const set of previous ? [previous, object] : [object]) {
      const owner = controllerOf(set)
      if (owner?.kind === 'Deployment') queue.add(`${set.metadata.namespace}/${owner.name}`)
    }
    if (controllerOf(object)) return
    for (const deployment of api.list<Deployment>('deployments', inNamespaceOf(object))) {
      if (wouldClaim(deployment, object.metadata.labels)) queue.add(keyOf(deployment))
    }
  })
  // Recreate waits for the last old Pod. Its end changes no ReplicaSet, because a Pod is not counted after its
  // deletion begins.
  context.watch<Pod>('pods', ({ type, object }) => {
    const owner = controllerOf(object)
    if (type === 'ADDED' || owner?.kind !== 'ReplicaSet') return
    if (type === 'MODIFIED' && !isTerminal(object)) return
    const { namespace } = object.metadata
    const set = api.get<ReplicaSet>('replicasets', namespace, owner.name)
    const deployment = set && controllerOf(set)
    if (deployment?.kind === 'Deployment') queue.add(`${namespace}/${deployment.name}`)
  })
}

function split(deployment: Deployment, sets: readonly ReplicaSet[]): Pick<Rollout, 'current' | 'old'> {
  const current = findCurrent(deployment, sets)
  return { current, old: sets.filter((set) => set !== current) }
}

/** True when `spec.replicas` changed since the active ReplicaSets were last scaled. */
function wasResized(rollout: Rollout): boolean {
  return allSets(rollout).some((set) => {
    const before = desired(set) > 0 ? desiredBefore(set) : undefined
    return before !== undefined && before !== desired(rollout.deployment)
  })
}

/** Scales the ReplicaSets to the Deployment's size without continuing a rollout. */
function rescale(scaler: Scaler, rollout: Rollout): Rollout {
  const { deployment, current, old } = rollout
  const replicas = desired(deployment)
  const active = allSets(rollout).filter((set) => desired(set) > 0)
  const newest = current ?? [...old].sort(byCreation).at(-1)
  const only = active.length > 1 ? undefined : (active[0] ?? newest)
  if (only) return scaler.scale(rollout, new Map([[only.metadata.name, replicas]]))
  const saturated =
    current &&
    desired(current) === replicas &&
    desiredBefore(current) === replicas &&
    current.status?.availableReplicas === replicas
  if (saturated) return scaler.scale(rollout, new Map(old.map(({ metadata }) => [metadata.name, 0])))
  if (deployment.spec.strategy?.type === 'Recreate' || desiredTotal(active) === 0) return rollout
  return scaler.scale(
    rollout,
    proportionalReplicas(deployment, active, (set) => maximumBefore(deployment, set)),
  )
}

/** A paused Deployment makes no progress and its deadline does not run; the Progressing condition shows it. */
function notePause({ api }: ControllerContext, deployment: Deployment): Deployment {
  const { paused } = deployment.spec
  const before = conditionOf(deployment.status, 'Progressing')
  if (!hasDeadline(deployment) || before?.reason === 'ProgressDeadlineExceeded') return deployment
  const status = structuredClone(deployment.status) ?? {}
  if (paused && before?.reason !== 'DeploymentPaused') {
    setCondition(status, condition('Progressing', 'Unknown', 'DeploymentPaused', 'Deployment is paused'))
  } else if (!paused && before?.reason === 'DeploymentPaused') {
    setCondition(status, condition('Progressing', 'Unknown', 'DeploymentResumed', 'Deployment is resumed'))
  } else return deployment
  return writeStatus(api, 'deployments', deployment, status) ?? deployment
}
