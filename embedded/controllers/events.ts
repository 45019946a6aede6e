import type { Api, KubeObject } from '../apiserver/api.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import type { Event } from './resources.ts'

/**
 * Records Events of one component (`deployment-controller`, `kubelet` with the node as `host`), as
 * client-go's recorder.
 */
export class EventRecorder {
  readonly #api: Api
  readonly #source: { component: string; host: string | undefined }
  /** The last Event by what it reports. */
  readonly #known = new Map<string, Event>()

  constructor(api: Api, component: string, host?: string) {
    this.#api = api
    this.#source = { component, host }
  }

  /**
   * Records an Event about `object`, or counts a repetition. Never throws. `fieldPath` names a part
   * (`spec.containers{web}`).
   */
  event(
    object: KubeObject,
    type: 'Normal' | 'Warning',
    reason: string,
    message: string,
    fieldPath?: string,
  ): void {
    const { apiVersion, kind, metadata } = object
    const { namespace, name, uid, resourceVersion } = metadata
    const signature = JSON.stringify([uid, kind, name, fieldPath, type, reason, message])
    try {
      if (this.#repeat(signature)) return
      const now = timestamp()
      const created = this.#api.create<Event>('events', namespace ?? 'default', {
        metadata: { name: `${name}.${nanoseconds()}`, namespace: namespace ?? 'default' },
        involvedObject: { apiVersion, kind, namespace, name, uid, resourceVersion, fieldPath },
        type,
        reason,
        message,
        source: this.#source,
        count: 1,
        firstTimestamp: now,
        lastTimestamp: now,
        eventTime: null,
        reportingComponent: this.#source.component,
        reportingInstance: this.#source.host ?? '',
      })
      this.#known.set(signature, created)
    } catch {
      // A namespace that is being deleted accepts no Events; the work must continue.
    }
  }

  #repeat(signature: string): boolean {
    const { metadata } = this.#known.get(signature) ?? {}
    const stored = metadata && this.#api.get<Event>('events', metadata.namespace, metadata.name)
    if (!stored || stored.metadata.uid !== metadata.uid) return false
    const patch = { count: (stored.count ?? 1) + 1, lastTimestamp: timestamp() }
    this.#api.patch('events', metadata.namespace, metadata.name, patch)
    return true
  }
}

/** The time in nanoseconds, hexadecimal, as in the names of Kubernetes' Events. */
const nanoseconds = (): string =>
  Math.round((performance.timeOrigin + performance.now()) * 1e6).toString(16)
