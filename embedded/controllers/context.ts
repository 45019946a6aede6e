import type { Api, KubeObject } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'
import { hasReason } from '../apiserver/status-error.ts'
import { createEventRecorder, type EventRecorder } from './events.ts'

/** A queue of object keys for one reconcile function, like client-go's rate-limited workqueue. */
export interface Workqueue {
  /** Requests a reconcile of `key` in the next macrotask; several requests before it runs count as one. */
  add(key: string): void
  /** Requests a reconcile of `key` later; of several times the earliest is used. */
  addAfter(key: string, milliseconds: number): void
  /** True if no key is queued or will be retried; later requests of `addAfter` do not count. */
  isIdle(): boolean
  /** Drops all requests; nothing runs afterwards. */
  stop(): void
}

// client-go's default rate limiter starts at 5 ms and doubles; its maximum of 1000 s is longer than a lab.
const firstRetryMs = 5
const lastRetryMs = 30_000
// The maximum duration of a batch before the API server and the kubelets can run.
const turnMs = 10
// The limit of setTimeout; a reconcile that runs too early requests another one.
const longestTimerMs = 2 ** 31 - 1

/**
 * Creates a queue that calls `reconcile(key)`, never concurrently for the same key. When it throws, the error goes to
 * `failed` and the key is tried again with exponential back-off until a call succeeds.
 */
export function createWorkqueue(reconcile: (key: string) => void, failed: (error: unknown) => void): Workqueue {
  const dirty = new Set<string>()
  const failures = new Map<string, number>()
  const timers = new Map<string, { due: number; timer: NodeJS.Timeout }>()
  let turn: NodeJS.Immediate | undefined
  let stopped = false

  function run(key: string) {
    try {
      reconcile(key)
      failures.delete(key)
    } catch (error) {
      const count = failures.get(key) ?? 0
      failures.set(key, count + 1)
      failed(error)
      addAfter(key, Math.min(firstRetryMs * 2 ** count, lastRetryMs))
    }
  }

  function takeTurn() {
    turn = undefined
    const end = performance.now() + turnMs
    // Only keys queued before this turn, so that a reconcile sees the effects of its earlier writes.
    for (const key of [...dirty]) {
      if (stopped || performance.now() > end) break
      dirty.delete(key)
      run(key)
    }
    if (dirty.size > 0) schedule()
  }

  function schedule() {
    if (!stopped) turn ??= setImmediate(takeTurn)
  }

  function add(key: string) {
    if (stopped) return
    dirty.add(key)
    schedule()
  }

  function addAfter(key: string, milliseconds: number) {
    if (stopped) return
    const delay = Math.min(Math.max(milliseconds, 0), longestTimerMs)
    const due = Date.now() + delay
    const waiting = timers.get(key)
    if (waiting && waiting.due <= due) return
    if (waiting) clearTimeout(waiting.timer)
    const timer = setTimeout(() => {
      timers.delete(key)
      add(key)
    }, delay)
    timers.set(key, { due, timer })
  }

  function stop() {
    stopped = true
    if (turn) clearImmediate(turn)
    for (const { timer } of timers.values()) clearTimeout(timer)
    timers.clear()
    dirty.clear()
  }

  return { add, addAfter, isIdle: () => dirty.size === 0 && failures.size === 0, stop }
}

/** One change of an object; `previous` is its old state (absent for a new object). */
export interface Change<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  object: T
  previous?: T
}

/** The input of every controller. Everything that it starts ends with the context. */
export interface ControllerContext {
  readonly api: Api
  /** A work queue; errors of `reconcile` are retried, unexpected ones also reported. */
  queue(reconcile: (key: string) => void): Workqueue
  /** A work queue of the objects of a resource, by their keys: each is reconciled after a change, and while it exists. */
  reconcile<T extends KubeObject>(resource: string, reconcile: (object: T, key: string) => void): Workqueue
  /** Calls `handle` for every present object of a resource, then for every change. */
  watch<T extends KubeObject>(resource: string, handle: (change: Change<T>) => void): void
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

/** Creates a context for `api`; `report` is called for unexpected errors (all but a StatusError). */
export function createContext(
  api: Api,
  report: (error: unknown) => void,
): { context: ControllerContext; isIdle(): boolean; stop(): void } {
  const ends: (() => void)[] = []
  const queues: Workqueue[] = []
  const context: ControllerContext = {
    api,
    queue(reconcile) {
      const queue = createWorkqueue(reconcile, report)
      queues.push(queue)
      ends.push(() => queue.stop())
      return queue
    },
    watch<T extends KubeObject>(resource: string, handle: (change: Change<T>) => void) {
      const last = new Map<string, T>()
      const end = api.watch<T>(resource, (type, object) => {
        const previous = last.get(object.metadata.uid)
        if (type === 'DELETED') last.delete(object.metadata.uid)
        else last.set(object.metadata.uid, object)
        handle({ type, object, ...(previous && { previous }) })
      })
      ends.push(end)
    },
    reconcile<T extends KubeObject>(resource: string, reconcile: (object: T, key: string) => void) {
      const queue = context.queue((key) => {
        const { namespace, name } = splitKey(key)
        const object = api.get<T>(resource, namespace, name)
        if (object) reconcile(object, key)
      })
      context.watch(resource, ({ type, object }) => {
        if (type !== 'DELETED') queue.add(keyOf(object))
      })
      return queue
    },
    recorder: (component) => createEventRecorder(api, component),
  }
  function stop() {
    for (const end of ends.splice(0)) end()
  }
  return { context, isIdle: () => queues.every((queue) => queue.isIdle()), stop }
}

/**
 * Writes `status` through the status subresource, onto the newest stored object; an equal one is not written again, so
 * that a controller's own updates do not trigger it endlessly. Returns the object as stored; undefined if it was
 * deleted.
 */
export function writeStatus<T extends KubeObject & { status?: unknown }>(
  api: Api,
  resource: string,
  object: T,
  status: T['status'],
): T | undefined {
  const { namespace, name, uid } = object.metadata
  const current = api.get<T>(resource, namespace, name)
  if (current?.metadata.uid !== uid) return undefined
  if (sameJson(current.status ?? {}, status ?? {})) return current
  return api.update<T>(resource, { ...structuredClone(current), status }, 'status')
}

/** Deletes an object; no error if it does not exist. */
export function remove(
  api: Api,
  resource: string,
  { namespace, name }: { namespace?: string | undefined; name: string },
): void {
  try {
    api.delete(resource, namespace, name)
  } catch (error) {
    if (!hasReason(error, 'NotFound')) throw error
  }
}

/**
 * Indexes the objects of a resource by their keys, for queries that would otherwise list a large resource at each
 * reconcile. The returned function finds the objects with a key, after the last delivered change.
 */
export function createIndex<T extends KubeObject>(
  context: ControllerContext,
  resource: string,
  keysOf: (object: T) => readonly string[],
): (key: string) => T[] {
  const byKey = new Map<string, Map<string, T>>()
  const forget = (object: T) => {
    for (const key of keysOf(object)) {
      const objects = byKey.get(key)
      objects?.delete(object.metadata.uid)
      if (objects?.size === 0) byKey.delete(key)
    }
  }
  context.watch<T>(resource, ({ type, object, previous }) => {
    forget(previous ?? object)
    if (type === 'DELETED') return
    for (const key of keysOf(object)) {
      const objects = byKey.get(key) ?? new Map<string, T>()
      byKey.set(key, objects.set(object.metadata.uid, object))
    }
  })
  return (key) => [...(byKey.get(key)?.values() ?? [])]
}
