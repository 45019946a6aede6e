import type { V1Pod } from '@kubernetes/client-node'

/** A container waits for these in every start. */
const USUAL = new Set(['ContainerCreating', 'PodInitializing'])

/** A Pod that no node takes, or one of whose containers does not start. */
export interface StuckPod {
  name: string
  /** As the API has it: `Unschedulable`, `ImagePullBackOff`, `CreateContainerConfigError`. */
  reason: string
  message: string
}

/**
 * The first of these Pods that waits for something that does not come by itself; deleted ones are
 * left out.
 */
export function stuckPod(pods: readonly V1Pod[]): StuckPod | undefined {
  for (const { metadata, status } of pods) {
    if (metadata?.deletionTimestamp) continue
    const containers = [
      ...(status?.initContainerStatuses ?? []),
      ...(status?.containerStatuses ?? []),
    ]
    const waiting = [
      ...(status?.conditions ?? []).filter(
        ({ type, status }) => type === 'PodScheduled' && status === 'False',
      ),
      ...containers.flatMap(({ state }) => state?.waiting ?? []),
    ]
    for (const { reason = '', message = '' } of waiting)
      if (reason !== '' && !USUAL.has(reason))
        return { name: metadata?.name ?? '', reason, message }
  }
  return undefined
}
