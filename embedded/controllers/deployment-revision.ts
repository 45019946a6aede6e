// The annotations by which `kubectl rollout history|undo` and proportional scaling know a ReplicaSet's past.
import { sameJson } from '../apiserver/json.ts'
import type { Deployment, ReplicaSet } from './resources.ts'
import { desired, rolloutBounds } from './rollout.ts'

export const revisionAnnotation = 'deployment.kubernetes.io/revision'
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
export function revisionOf({ metadata }: Deployment | ReplicaSet): number {
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
 * revision; a revision it had before, when a rollback brought it back, joins its history.
 */
export function currentSetAnnotations(
  deployment: Deployment,
  set: ReplicaSet | undefined,
  revision: number,
): Annotations {
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

/** The set's annotations after its size was decided for the Deployment's present size. */
export function scaledSetAnnotations(deployment: Deployment, set: ReplicaSet): Annotations {
  return { ...set.metadata.annotations, ...scaleAnnotations(deployment) }
}

export function scaleAnnotationsAreCurrent(deployment: Deployment, set: ReplicaSet): boolean {
  return sameJson(scaledSetAnnotations(deployment, set), set.metadata.annotations ?? {})
}

/** The Deployment's size when the set was last scaled. */
export function desiredBefore(set: ReplicaSet): number | undefined {
  const value = set.metadata.annotations?.[desiredAnnotation]
  return value === undefined ? undefined : Number(value)
}

/** Replicas and surge when the set was last scaled; sets from before that annotation use the Deployment's status. */
export function maximumBefore(deployment: Deployment, set: ReplicaSet): number {
  return Number(set.metadata.annotations?.[maximumAnnotation]) || (deployment.status?.replicas ?? desired(deployment))
}
