import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, writeStatus } from './context.ts'
import { claim, controllerOf, controllerReference, inNamespaceOf, isControlledBy, watchOwned } from './ownership.ts'
import { podTemplateHashLabel, sameTemplate, templateHash } from './pod-control.ts'
import { byCreation, type Deployment, isTerminal, type Pod, type ReplicaSet } from './resources.ts'
import { allSets, desired, nextCurrentReplicas, nextOldReplicas, type Rollout, statusOf } from './rollout.ts'

/** Rolls Deployments out through ReplicaSets, step by step as their Pods become available. */
export function startDeploymentController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('deployment-controller')

  const queue = context.reconcile<Deployment>('deployments', (stored) => {
    const rollout = recordRevision(split(stored, claim<ReplicaSet>(api, stored, 'replicasets')))
    const { deployment } = rollout
    const next = deployment.metadata.deletionTimestamp ? rollout : step(rollout)
    writeStatus(api, 'deployments', deployment, statusOf(next))
  })

  /** Finds the ReplicaSet of the Deployment's current template; the oldest one if there are several. */
  function split(deployment: Deployment, sets: readonly ReplicaSet[]): Rollout {
    const { template } = deployment.spec
    const current = [...sets].sort(byCreation).find((set) => sameTemplate(set.spec.template ?? {}, template))
    return { deployment, current, old: sets.filter((set) => set !== current) }
  }

  /**
   * Gives the current ReplicaSet, if there is one, the newest revision and the Deployment's annotations, and writes the
   * revision to the Deployment.
   */
  function recordRevision({ deployment, current, old }: Rollout): Rollout {
    if (!current || deployment.metadata.deletionTimestamp) return { deployment, current, old }
    const annotations = annotationsOf(deployment, Math.max(revisionOf(current), nextRevision(old)), current)
    const isRecorded = sameJson(annotations, current.metadata.annotations)
    const set = isRecorded
      ? current
      : api.update<ReplicaSet>('replicasets', { ...current, metadata: { ...current.metadata, annotations } })
    const revision = { [revisionAnnotation]: String(revisionOf(set)) }
    if (revisionOf(deployment) === revisionOf(set)) return { deployment, current: set, old }
    const { namespace, name } = deployment.metadata
    const patched = api.patch<Deployment>('deployments', namespace, name, { metadata: { annotations: revision } })
    return { deployment: patched, current: set, old }
  }

  /** Scales the ReplicaSets one step on; a paused Deployment only follows its number of replicas. */
  function step(rollout: Rollout): Rollout {
    const { paused, strategy } = rollout.deployment.spec
    if (paused) {
      const active = allSets(rollout).filter((set) => desired(set) > 0)
      const only = active.length > 1 ? undefined : (active[0] ?? rollout.current)
      return only ? scale(rollout, sizes([only], desired(rollout.deployment))) : rollout
    }
    return strategy?.type === 'Recreate' ? recreate(rollout) : roll(rollout)
  }

  function roll(rollout: Rollout): Rollout {
    const current = rollout.current ?? createReplicaSet(rollout)
    const both = { ...rollout, current }
    const size = Math.min(nextCurrentReplicas(both), desired(rollout.deployment))
    const up = scale(both, sizes([current], size))
    return scale(up, nextOldReplicas(up))
  }

  function recreate(rollout: Rollout): Rollout {
    const down = scale(rollout, sizes(rollout.old, 0))
    const oldPodsRemain = api
      .list<Pod>('pods', inNamespaceOf(rollout.deployment))
      .some((pod) => !isTerminal(pod) && down.old.some((set) => isControlledBy(pod, set)))
    if (oldPodsRemain) return down
    const current = down.current ?? createReplicaSet(down)
    return scale({ ...down, current }, sizes([current], desired(rollout.deployment)))
  }

  /** Scales the ReplicaSets named in `next`; returns the rollout with the stored ReplicaSets. */
  function scale({ deployment, current, old }: Rollout, next: ReadonlyMap<string, number>): Rollout {
    const apply = (set: ReplicaSet) => {
      const before = desired(set)
      const size = next.get(set.metadata.name) ?? before
      if (size === before) return set
      recordScaling(deployment, set, before, size)
      return api.update<ReplicaSet>('replicasets', { ...set, spec: { ...set.spec, replicas: size } })
    }
    return { deployment, current: current && apply(current), old: old.map(apply) }
  }

  function recordScaling(deployment: Deployment, { metadata: { name } }: ReplicaSet, before: number, size: number) {
    const message = `Scaled ${size > before ? 'up' : 'down'} replica set ${name} from ${before} to ${size}`
    recorder.event(deployment, 'Normal', 'ScalingReplicaSet', message)
  }

  /** Creates the ReplicaSet of the current template. */
  function createReplicaSet(rollout: Rollout): ReplicaSet {
    const { deployment, old } = rollout
    const { namespace, name } = deployment.metadata
    const { template, selector } = deployment.spec
    const hash = { [podTemplateHashLabel]: templateHash(template) }
    const labels = { ...template.metadata?.labels, ...hash }
    const replicas = nextCurrentReplicas(rollout)
    const metadata = {
      name: `${name}-${templateHash(template)}`,
      labels,
      annotations: annotationsOf(deployment, nextRevision(old)),
      ownerReferences: [controllerReference(deployment)],
    }
    const spec = {
      replicas,
      selector: { ...selector, matchLabels: { ...selector.matchLabels, ...hash } },
      template: { ...template, metadata: { ...template.metadata, labels } },
    }
    const created = api.create<ReplicaSet>('replicasets', namespace, { metadata, spec })
    if (replicas > 0) recordScaling(deployment, created, 0, replicas)
    return created
  }

  watchOwned(context, queue, 'replicasets', 'deployments')
  // Recreate waits for the last old Pod. Its end changes no ReplicaSet, because a Pod is not counted after its
  // deletion begins.
  context.watch<Pod>('pods', ({ type, object }) => {
    const owner = controllerOf(object)
    if (owner?.kind !== 'ReplicaSet' || !(type === 'DELETED' || isTerminal(object))) return
    const { namespace } = object.metadata
    const set = api.get<ReplicaSet>('replicasets', namespace, owner.name)
    const deployment = set && controllerOf(set)
    if (deployment?.kind === 'Deployment') queue.add(`${namespace}/${deployment.name}`)
  })
}

function sizes(sets: readonly ReplicaSet[], size: number): Map<string, number> {
  return new Map(sets.map(({ metadata }) => [metadata.name, size]))
}

// The annotations for `kubectl rollout history|undo`.

const revisionAnnotation = 'deployment.kubernetes.io/revision'
const notCopied = [revisionAnnotation, 'kubectl.kubernetes.io/last-applied-configuration']

/** The revision of a Deployment or ReplicaSet; 0 when it has none. */
function revisionOf({ metadata }: Deployment | ReplicaSet): number {
  return Number.parseInt(metadata.annotations?.[revisionAnnotation] ?? '0', 10) || 0
}

const nextRevision = (old: readonly ReplicaSet[]): number => Math.max(0, ...old.map(revisionOf)) + 1

/** The annotations of a ReplicaSet: the Deployment's own (change-cause among them) and its revision. */
function annotationsOf(deployment: Deployment, revision: number, set?: ReplicaSet): Record<string, string> {
  const own = Object.entries(deployment.metadata.annotations ?? {}).filter(([key]) => !notCopied.includes(key))
  return { ...set?.metadata.annotations, ...Object.fromEntries(own), [revisionAnnotation]: String(revision) }
}
