import { type ControllerContext, writeStatus } from './context.ts'
import { EventRecorder } from './events.ts'
import { claim, controllerReference, watchOwned } from './ownership.ts'
import { podTemplateHashLabel, sameTemplate, templateHash } from './pod-control.ts'
import { byCreation, type Deployment, type ReplicaSet } from './resources.ts'
import { deploymentStatus, desired, nextSizes, type Rollout } from './rollout.ts'

/** Rolls Deployments out through ReplicaSets, step by step as their Pods become available. */
export function startDeploymentController(context: ControllerContext): void {
  const { api } = context
  const recorder = new EventRecorder(api, 'deployment-controller')

  const queue = context.reconcile<Deployment>('deployments', (deployment) => {
    const { template, paused } = deployment.spec
    const sets = claim<ReplicaSet>(api, deployment, 'replicasets').sort(byCreation)
    const found = sets.find((set) => sameTemplate(set.spec.template ?? {}, template))
    const current = found ?? (paused ? undefined : createReplicaSet(deployment))
    const rollout = scale(
      recordRevision({ deployment, current, old: sets.filter((set) => set !== found) }),
    )
    writeStatus(api, 'deployments', deployment, deploymentStatus(rollout))
  })

  /** Creates the ReplicaSet of the current template, without Pods. */
  function createReplicaSet(deployment: Deployment): ReplicaSet {
    const { namespace, name } = deployment.metadata
    const { template, selector } = deployment.spec
    const hash = templateHash(template)
    const labels = { ...template.metadata?.labels, [podTemplateHashLabel]: hash }
    const ownerReferences = [controllerReference(deployment)]
    return api.create<ReplicaSet>('replicasets', namespace, {
      metadata: { name: `${name}-${hash}`, labels, ownerReferences },
      spec: {
        replicas: 0,
        selector: {
          ...selector,
          matchLabels: { ...selector.matchLabels, [podTemplateHashLabel]: hash },
        },
        template: { ...template, metadata: { ...template.metadata, labels } },
      },
    })
  }

  /**
   * Records the newest revision and the change cause on the current ReplicaSet, for
   * `kubectl rollout history` and `undo`.
   */
  function recordRevision(rollout: Rollout): Rollout {
    const { deployment, current, old } = rollout
    if (!current) return rollout
    const { namespace, name } = deployment.metadata
    const revision = Math.max(revisionOf(current), ...old.map((set) => revisionOf(set) + 1), 1)
    const recorded = { [revisionAnnotation]: String(revision) }
    const own = Object.entries(deployment.metadata.annotations ?? {}).filter(
      ([key]) => !notCopied.includes(key),
    )
    const annotations = { ...current.metadata.annotations, ...Object.fromEntries(own), ...recorded }
    const metadata = { ...current.metadata, annotations }
    return {
      deployment: api.patch<Deployment>('deployments', namespace, name, {
        metadata: { annotations: recorded },
      }),
      current: api.update<ReplicaSet>('replicasets', { ...current, metadata }),
      old,
    }
  }

  /** Scales the ReplicaSets one step on; returns the rollout with the stored ReplicaSets. */
  function scale({ deployment, current, old }: Rollout): Rollout {
    const sizes = nextSizes({ deployment, current, old })
    const apply = (set: ReplicaSet) => {
      const [before, size] = [desired(set), sizes.get(set.metadata.name)]
      if (size === undefined || size === before) return set
      const change = `Scaled ${size > before ? 'up' : 'down'} replica set ${set.metadata.name} from ${before} to ${size}`
      recorder.event(deployment, 'Normal', 'ScalingReplicaSet', change)
      return api.update<ReplicaSet>('replicasets', {
        ...set,
        spec: { ...set.spec, replicas: size },
      })
    }
    return { deployment, current: current && apply(current), old: old.map(apply) }
  }

  watchOwned(context, queue, 'replicasets', 'deployments')
}

const revisionAnnotation = 'deployment.kubernetes.io/revision'
const notCopied = [revisionAnnotation, 'kubectl.kubernetes.io/last-applied-configuration']

/** The revision of a ReplicaSet; 0 when it has none. */
function revisionOf({ metadata }: ReplicaSet): number {
  return Number.parseInt(metadata.annotations?.[revisionAnnotation] ?? '0', 10) || 0
}
