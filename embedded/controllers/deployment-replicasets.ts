import { sameJson } from '../apiserver/json.ts'
import { hasReason } from '../apiserver/status-error.ts'
import type { ControllerContext } from './context.ts'
import { condition, conditionOf, hasDeadline, setCondition } from './deployment-conditions.ts'
import { currentSetAnnotations, revisionAnnotation, revisionOf } from './deployment-revision.ts'
import { messageOf } from './error-message.ts'
import type { EventRecorder } from './events.ts'
import { controllerReference, isControlledBy } from './ownership.ts'
import type { Deployment, ReplicaSet } from './resources.ts'
import { byCreation, nextCurrentReplicas, type Rollout } from './rollout.ts'
import { writeStatus } from './status.ts'
import { podTemplateHashLabel, sameTemplate, templateHash } from './template-hash.ts'

/** The ReplicaSet of the Deployment's present template; the oldest, should several have it. */
export function findCurrent(deployment: Deployment, sets: readonly ReplicaSet[]): ReplicaSet | undefined {
  return [...sets].sort(byCreation).find((set) => sameTemplate(set.spec.template ?? {}, deployment.spec.template))
}

function nextRevision(old: readonly ReplicaSet[]): number {
  return Math.max(0, ...old.map(revisionOf)) + 1
}

/** Gives the current ReplicaSet, if there is one, the newest revision and the Deployment's annotations; the same to both. */
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

/** Writes the revision on the Deployment and, for a new ReplicaSet or where none is, a Progressing condition. */
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
 * Makes the ReplicaSet of the present template. A name that another template's ReplicaSet has by chance raises the
 * Deployment's collisionCount and throws, so that the next try gets another hash.
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
  // Its own with the same template: it will be found by the next try.
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
