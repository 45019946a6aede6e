import type { Api, KubeObject } from '../apiserver/api.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import type { Event } from './resources.ts'

export type EventType = 'Normal' | 'Warning'

export interface EventRecorder {
  /**
   * Records an Event about `object`. A repetition of the same message about the same object updates the first
   * Event's `count` and `lastTimestamp`. Never throws: a failure to record an Event does not affect the caller.
   * `fieldPath` names a part of the object (`spec.containers{web}`).
   */
  event(object: KubeObject, type: EventType, reason: string, message: string, fieldPath?: string): void
}

// The cache size of client-go's correlator.
const remembered = 4096
let lastSuffix = 0n

/** The suffix of an Event's name: the time in nanoseconds, hexadecimal, unique in a process. */
function nameSuffix(): string {
  const nanoseconds = BigInt(Date.now()) * 1_000_000n
  lastSuffix = nanoseconds > lastSuffix ? nanoseconds : lastSuffix + 1n
  return lastSuffix.toString(16)
}

/** A recorder for one component (`deployment-controller`, `kubelet` with the node as `host`), as client-go's. */
export function createEventRecorder(api: Api, component: string, host?: string): EventRecorder {
  const known = new Map<string, { namespace: string; name: string; uid: string }>()
  const source = host === undefined ? { component } : { component, host }

  function repeat(signature: string): boolean {
    const earlier = known.get(signature)
    if (!earlier) return false
    const stored = api.get<Event>('events', earlier.namespace, earlier.name)
    if (stored?.metadata.uid !== earlier.uid) return false
    const patch = { count: (stored.count ?? 1) + 1, lastTimestamp: timestamp() }
    api.patch('events', earlier.namespace, earlier.name, patch)
    return true
  }

  function record(object: KubeObject, type: EventType, reason: string, message: string, fieldPath?: string) {
    const { apiVersion, kind, metadata } = object
    const signature = JSON.stringify([metadata.uid, kind, metadata.name, fieldPath, type, reason, message])
    if (repeat(signature)) return
    const namespace = metadata.namespace ?? 'default'
    const now = timestamp()
    const created = api.create<Event>('events', namespace, {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${metadata.name}.${nameSuffix()}`, namespace },
      involvedObject: {
        apiVersion,
        kind,
        name: metadata.name,
        ...(metadata.namespace && { namespace: metadata.namespace }),
        uid: metadata.uid,
        resourceVersion: metadata.resourceVersion,
        ...(fieldPath && { fieldPath }),
      },
      type,
      reason,
      message,
      source,
      count: 1,
      firstTimestamp: now,
      lastTimestamp: now,
      eventTime: null,
      reportingComponent: component,
      reportingInstance: host ?? '',
    })
    known.delete(signature)
    known.set(signature, { namespace, name: created.metadata.name, uid: created.metadata.uid })
    const oldest = known.keys().next()
    if (known.size > remembered && !oldest.done) known.delete(oldest.value)
  }

  return {
    event(...what) {
      try {
        record(...what)
      } catch {
        // A namespace that is being deleted accepts no Events; the work must continue.
      }
    },
  }
}
