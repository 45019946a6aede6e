import { wireCopy } from './json.ts'
import { timestamp } from './object-birth.ts'
import type { Resource } from './resource.ts'
import type { Stored } from './store.ts'

export interface DeleteOptions {
  gracePeriodSeconds?: number
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'
  preconditions?: { uid?: string; resourceVersion?: string }
}

interface PodLike {
  spec?: { nodeName?: string; terminationGracePeriodSeconds?: number }
  status?: { phase?: string }
}

/** The object with its deletion noted: time, grace period, finalizers of the propagation policy. */
export function markDeleted(resource: Resource, old: Stored, options: DeleteOptions, now: Date): Stored {
  const object = wireCopy(old)
  const { metadata } = object
  const grace = resource.name === 'pods' ? podGrace(object as Stored & PodLike, options) : 0
  const before = metadata.deletionGracePeriodSeconds
  if (metadata.deletionTimestamp === undefined) {
    metadata.deletionTimestamp = timestamp(new Date(now.getTime() + grace * 1000))
    metadata.deletionGracePeriodSeconds = grace
    if (resource.generation) metadata.generation = (metadata.generation ?? 0) + 1
    const finalizer = { Foreground: 'foregroundDeletion', Orphan: 'orphan', Background: undefined }[
      options.propagationPolicy ?? 'Background'
    ]
    if (finalizer && !metadata.finalizers?.includes(finalizer)) {
      metadata.finalizers = [...(metadata.finalizers ?? []), finalizer]
    }
  } else if (before !== undefined && options.gracePeriodSeconds !== undefined && grace < before) {
    // A second delete may only shorten the wait.
    const end = Date.parse(metadata.deletionTimestamp) - (before - grace) * 1000
    metadata.deletionTimestamp = timestamp(new Date(end))
    metadata.deletionGracePeriodSeconds = grace
  }
  if (resource.name === 'namespaces') object.status = { ...(object.status ?? {}), phase: 'Terminating' }
  return object
}

/** Whether a marked object without finalizers goes now, or waits for the kubelet or for the content of a namespace. */
export function endOf(resource: Resource, object: Stored): 'now' | 'waits' {
  if (resource.name === 'namespaces') return 'waits'
  return resource.name === 'pods' && (object.metadata.deletionGracePeriodSeconds ?? 0) > 0 ? 'waits' : 'now'
}

/** Pods that no kubelet runs, or that have ended, need no grace. */
function podGrace(pod: Stored & PodLike, options: DeleteOptions): number {
  if (!pod.spec?.nodeName || pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed') return 0
  return Math.max(0, options.gracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30)
}
