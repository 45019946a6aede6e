import { sameJson } from '../apiserver/json.ts'
import { hasReason, messageOf } from '../apiserver/status-error.ts'
import { type ControllerContext, writeStatus } from './context.ts'
import { condition, conditionOf, hasDeadline, setCondition } from './deployment-conditions.ts'
import type { EventRecorder } from './events.ts'
import { controllerReference, isControlledBy } from './ownership.ts'
import { podTemplateHashLabel, sameTemplate, templateHash } from './pod-control.ts'
import type { Deployment, ReplicaSet } from './resources.ts'
import { byCreation, desired, nextCurrentReplicas, type Rollout, rolloutBounds } from './rollout.ts'

/** The ReplicaSet of the Deployment's current template; the oldest one if there are several. */
export function findCurrent(deployment: Deployment, sets: readonly ReplicaSet[]): ReplicaSet | undefined {
  return [...sets].sort(byCreation).find((set) => sameTemplate(set.spec.template ?? {}, deployment.spec.template))
}

function nextRevision(old: readonly ReplicaSet[]): number {
  return Math.max(0, ...old.map(revisionOf)) + 1
}

/**
 * Gives the current ReplicaSet, if there is one, the newest revision and the Deployment's annotations, and writes
 * the revision to the Deployment.
 */
export function syncRevision(context: ControllerContext, rollout: Rollout): Rollout {
  const { deployment, current, old } = rollout
  if (!current || deployment.metadata.deletionTimestamp) return rollout
  const annotations = currentSetAnnotations(deployment, current, nextRevision(old))
  const { minReadySeconds = 0 } = deployment.spec
  let set = current
  if (!sameJson(annotations, current.metadata.annotations) || (current.spec.minReadySeconds ?? 0) !== minReadySeconds) {
    const changed = structuredClone(current)
    changed.metadata.annotations = annotations
    changed.spec.minReadySeconds = minReadySeconds
    set = context.api.update<ReplicaSet>('replicasets', changed)
  }
  const found = `Found new replica set "${set.metadata.name}"`
  return { current: set, old, deployment: announce(context, deployment, set, 'FoundNewReplicaSet', found, false) }
}

/**
 * Writes the revision to the Deployment and, for a new ReplicaSet or if it is missing, a Progressing condition.
 */
function announce(
  { api }: ControllerContext,
  deployment: Deployment,
  set: ReplicaSet,
  reason: string,
  message: string,
  always: boolean,
): Deployment {
  const { namespace, name } = deployment.metadata
  const revision = String(revisionOf(set))
  let stored = deployment
  if (deployment.metadata.annotations?.[revisionAnnotation] !== revision) {
    const metadata = { annotations: { [revisionAnnotation]: revision } }
    stored = api.patch<Deployment>('deployments', namespace, name, { metadata })
  }
  if (hasDeadline(deployment) && (always || !conditionOf(stored.status, 'Progressing'))) {
    const status = structuredClone(stored.status) ?? {}
    setCondition(status, condition('Progressing', 'True', reason, message))
    stored = writeStatus(api, 'deployments', stored, status) ?? stored
  }
  return stored
}

/**
 * Creates the ReplicaSet of the current template. If another template's ReplicaSet has the same name, increments
 * the Deployment's collisionCount and throws, so that the next attempt gets another hash.
 */
export function createReplicaSet(context: ControllerContext, recorder: EventRecorder, rollout: Rollout): Rollout {
  const { api } = context
  const { deployment, old } = rollout
  const { namespace, name } = deployment.metadata
  const { template, selector, minReadySeconds } = deployment.spec
  const hash = templateHash(template, deployment.status?.collisionCount)
  const label = { [podTemplateHashLabel]: hash }
  const labels = { ...template.metadata?.labels, ...label }
  const replicas = nextCurrentReplicas(rollout)
  try {
    const current = api.create<ReplicaSet>('replicasets', namespace, {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      metadata: {
        name: `${name}-${hash}`,
        ...(namespace && { namespace }),
        labels,
        annotations: currentSetAnnotations(deployment, undefined, nextRevision(old)),
        ownerReferences: [controllerReference(deployment)],
      },
      spec: {
        replicas,
        ...(minReadySeconds !== undefined && { minReadySeconds }),
        selector: { ...selector, matchLabels: { ...selector.matchLabels, ...label } },
        template: { ...template, metadata: { ...template.metadata, labels } },
      },
    })
    if (replicas > 0) {
      const message = `Scaled up replica set ${current.metadata.name} from 0 to ${replicas}`
      recorder.event(deployment, 'Normal', 'ScalingReplicaSet', message)
    }
    const created = `Created new replica set "${current.metadata.name}"`
    return { current, old, deployment: announce(context, deployment, current, 'NewReplicaSetCreated', created, true) }
  } catch (error) {
    if (hasReason(error, 'AlreadyExists')) countCollision(context, deployment, `${name}-${hash}`)
    else {
      const message = `Failed to create new replica set "${name}-${hash}": ${messageOf(error)}`
      recorder.event(deployment, 'Warning', 'ReplicaSetCreateError', message)
    }
    throw error
  }
}

function countCollision({ api }: ControllerContext, deployment: Deployment, setName: string) {
  const other = api.get<ReplicaSet>('replicasets', deployment.metadata.namespace, setName)
  // It has the same template: the next attempt finds it.
  if (other && isControlledBy(other, deployment) && findCurrent(deployment, [other])) return
  const collisionCount = (deployment.status?.collisionCount ?? 0) + 1
  writeStatus(api, 'deployments', deployment, { ...deployment.status, collisionCount })
}

/** Deletes the oldest revisions beyond `revisionHistoryLimit` that no longer have Pods. */
export function cleanUpHistory({ api }: ControllerContext, { deployment, old }: Rollout): void {
  const kept = deployment.spec.revisionHistoryLimit ?? 10
  const revisions = old
    .filter(({ metadata }) => !metadata.deletionTimestamp)
    .sort((left, right) => revisionOf(left) - revisionOf(right))
  for (const { metadata, spec, status } of revisions.slice(0, Math.max(0, revisions.length - kept))) {
    const unobserved = (metadata.generation ?? 0) > (status?.observedGeneration ?? 0)
    if ((status?.replicas ?? 0) > 0 || spec.replicas !== 0 || unobserved) continue
    try {
      api.delete('replicasets', metadata.namespace, metadata.name, { propagationPolicy: 'Background' })
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  }
}

export interface Scaler {
  /**
   * Scales the ReplicaSets named in `sizes` and records events; returns the rollout with the stored ReplicaSets.
   */
  scale(rollout: Rollout, sizes: ReadonlyMap<string, number>): Rollout
}

export function createScaler({ api }: ControllerContext, recorder: EventRecorder): Scaler {
  function resize({ deployment }: Rollout, set: ReplicaSet, size: number): ReplicaSet {
    const before = desired(set)
    if (before === size && (size === 0 || scaleAnnotationsAreCurrent(deployment, set))) return set
    const { name, namespace } = set.metadata
    const changed = structuredClone(set)
    changed.spec.replicas = size
    changed.metadata.annotations = scaledSetAnnotations(deployment, set)
    const stored = api.update<ReplicaSet>('replicasets', changed)
    if (before !== size) {
      const direction = size > before ? 'up' : 'down'
      const message = `Scaled ${direction} replica set ${name} from ${before} to ${size}`
      recorder.event(deployment, 'Normal', 'ScalingReplicaSet', message)
    }
    return api.get<ReplicaSet>('replicasets', namespace, name) ?? stored
  }

  return {
    scale(rollout, sizes) {
      const apply = (set: ReplicaSet) => {
        const size = sizes.get(set.metadata.name)
        return size === undefined ? set : resize(rollout, set, size)
      }
      const { deployment, current, old } = rollout
      return { deployment, current: current && apply(current), old: old.map(apply) }
    },
  }
}

// The annotations for `kubectl rollout history|undo` and proportional scaling.

const revisionAnnotation = 'deployment.kubernetes.io/revision'
const historyAnnotation = 'deployment.kubernetes.io/revision-history'
const desiredAnnotation = 'deployment.kubernetes.io/desired-replicas'
const maximumAnnotation = 'deployment.kubernetes.io/max-replicas'
const rolloutAnnotations = [revisionAnnotation, historyAnnotation, desiredAnnotation, maximumAnnotation]
const notCopied = [
  ...rolloutAnnotations,
  'kubectl.kubernetes.io/last-applied-configuration',
  'deprecated.deployment.rollback.to',
]

type Annotations = Record<string, string>

/** The revision of a Deployment or ReplicaSet; 0 when it has none. */
function revisionOf({ metadata }: Deployment | ReplicaSet): number {
  return Number.parseInt(metadata.annotations?.[revisionAnnotation] ?? '0', 10) || 0
}

function scaleAnnotations(deployment: Deployment): Annotations {
  const replicas = desired(deployment)
  return {
    [desiredAnnotation]: String(replicas),
    [maximumAnnotation]: String(replicas + rolloutBounds(deployment).surge),
  }
}

/**
 * The annotations of the current ReplicaSet at `revision`: the Deployment's own (change-cause among them) and its
 * revision; an earlier revision, before a rollback, is added to its history.
 */
function currentSetAnnotations(deployment: Deployment, set: ReplicaSet | undefined, revision: number): Annotations {
  const own = set?.metadata.annotations ?? {}
  const copied = Object.entries(deployment.metadata.annotations ?? {}).filter(([key]) => !notCopied.includes(key))
  const annotations: Annotations = { ...own, ...Object.fromEntries(copied) }
  const before = own[revisionAnnotation]
  if (Number(before ?? 0) < revision) {
    annotations[revisionAnnotation] = String(revision)
    if (before !== undefined) {
      annotations[historyAnnotation] = own[historyAnnotation] ? `${own[historyAnnotation]},${before}` : before
    }
  }
  return set ? annotations : { ...annotations, ...scaleAnnotations(deployment) }
}

/** The set's annotations after it was scaled for the Deployment's current size. */
function scaledSetAnnotations(deployment: Deployment, set: ReplicaSet): Annotations {
  return { ...set.metadata.annotations, ...scaleAnnotations(deployment) }
}

function scaleAnnotationsAreCurrent(deployment: Deployment, set: ReplicaSet): boolean {
  return sameJson(scaledSetAnnotations(deployment, set), set.metadata.annotations ?? {})
}

/** The Deployment's size when the set was last scaled. */
export function desiredBefore(set: ReplicaSet): number | undefined {
  const value = set.metadata.annotations?.[desiredAnnotation]
  return value === undefined ? undefined : Number(value)
}

/** Replicas and surge when the set was last scaled; sets without that annotation use the Deployment's status. */
export function maximumBefore(deployment: Deployment, set: ReplicaSet): number {
  return Number(set.metadata.annotations?.[maximumAnnotation]) || (deployment.status?.replicas ?? desired(deployment))
}
