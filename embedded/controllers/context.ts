import type { Api, KubeObject, ResourceName } from '../apiserver/api.ts'
import { createEventRecorder, type EventRecorder } from './events.ts'
import { createWorkqueue, type Workqueue } from './workqueue.ts'

/** One change of an object; `previous` is what it was before (absent for a new object). */
export interface Change<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  object: T
  previous?: T
}

/** What every controller is given. All it starts ends with the context. */
export interface ControllerContext {
  readonly api: Api
  /** A work queue; errors of `reconcile` are retried, unexpected ones also reported. */
  queue(reconcile: (key: string) => void): Workqueue
  /** Calls `handle` for every present object of a resource, then for every change. */
  watch<T extends KubeObject>(resource: ResourceName, handle: (change: Change<T>) => void): void
  recorder(component: string): EventRecorder
}

/** The key of an object in a work queue: `namespace/name`, or the name alone. */
export function keyOf(object: KubeObject): string {
  const { namespace, name } = object.metadata
  return namespace ? `${namespace}/${name}` : name
}

/** The namespace (undefined for cluster-scoped objects) and name of a key. */
export function splitKey(key: string): { namespace: string | undefined; name: string } {
  const slash = key.indexOf('/')
  return slash < 0
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

/** Makes a context over `api`; `report` gets errors that are not part of the game (anything but a StatusError). */
export function createContext(
  api: Api,
  report: (error: unknown) => void,
): { context: ControllerContext; isIdle(): boolean; stop(): void } {
  const ends: (() => void)[] = []
  const queues: Workqueue[] = []
  const context: ControllerContext = {
    api,
    queue(reconcile) {
      const queue = createWorkqueue(reconcile, (_key, error) => report(error))
      queues.push(queue)
      ends.push(() => queue.stop())
      return queue
    },
    watch<T extends KubeObject>(resource: ResourceName, handle: (change: Change<T>) => void) {
      const last = new Map<string, T>()
      const end = api.watch<T>(resource, (type, object) => {
        const previous = last.get(object.metadata.uid)
        if (type === 'DELETED') last.delete(object.metadata.uid)
        else last.set(object.metadata.uid, object)
        handle({ type, object, ...(previous && { previous }) })
      })
      ends.push(end)
    },
    recorder: (component) => createEventRecorder(api, component),
  }
  function stop() {
    for (const end of ends.splice(0)) end()
  }
  return { context, isIdle: () => queues.every((queue) => queue.isIdle()), stop }
}
