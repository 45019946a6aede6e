import type { ControllerContext } from './context.ts'
import { scaleAnnotationsAreCurrent, scaledSetAnnotations } from './deployment-revision.ts'
import type { EventRecorder } from './events.ts'
import type { ReplicaSet } from './resources.ts'
import { desired, type Rollout } from './rollout.ts'

export interface Scaler {
  /** Scales the ReplicaSets named in `sizes` (others stay) and tells so; returns the rollout with them as stored. */
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
