import type { Api, KubeObject } from '../apiserver/api.ts'

// client-go's default rate limiter starts at 5 ms and doubles; its maximum of 1000 s is longer than
// a lab.
const firstRetryMs = 5
const lastRetryMs = 30_000
// The maximum duration of a turn before the API server and the kubelets can run.
const turnMs = 10
// The limit of setTimeout; a reconcile that runs too early requests another one.
const longestTimerMs = 2 ** 31 - 1

/**
 * Object keys for one reconcile function that never runs concurrently; one that throws is retried
 * with back-off (client-go's workqueue).
 */
export class Workqueue {
  readonly #reconcile: (key: string) => void
  readonly #failed: (error: unknown) => void
  readonly #dirty = new Set<string>()
  readonly #failures = new Map<string, number>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #turn: NodeJS.Immediate | undefined
  #stopped = false

  constructor(reconcile: (key: string) => void, failed: (error: unknown) => void) {
    this.#reconcile = reconcile
    this.#failed = failed
  }

  /**
   * Requests a reconcile of `key` in the next macrotask; several requests before it runs count as
   * one.
   */
  add(key: string): void {
    if (this.#stopped) return
    this.#dirty.add(key)
    this.#turn ??= setImmediate(() => this.#takeTurn())
  }

  /**
   * Requests a reconcile of `key` later; the last request counts, because every reconcile requests
   * its next one.
   */
  addAfter(key: string, milliseconds: number): void {
    if (this.#stopped) return
    clearTimeout(this.#timers.get(key))
    const timer = setTimeout(() => this.add(key), Math.min(milliseconds, longestTimerMs))
    this.#timers.set(key, timer)
  }

  /** True if no key is queued or will be retried; later requests of `addAfter` do not count. */
  isIdle(): boolean {
    return this.#dirty.size === 0 && this.#failures.size === 0
  }

  /** Drops all requests; nothing runs afterwards. */
  stop(): void {
    this.#stopped = true
    clearImmediate(this.#turn)
    for (const timer of this.#timers.values()) clearTimeout(timer)
  }

  #takeTurn(): void {
    this.#turn = undefined
    const end = performance.now() + turnMs
    // Only keys queued before this turn, so that a reconcile sees the effects of its earlier
    // writes.
    for (const key of [...this.#dirty]) {
      if (performance.now() > end) break
      this.#dirty.delete(key)
      this.#run(key)
    }
    if (this.#dirty.size > 0) this.#turn ??= setImmediate(() => this.#takeTurn())
  }

  #run(key: string): void {
    try {
      this.#reconcile(key)
      this.#failures.delete(key)
    } catch (error) {
      const count = this.#failures.get(key) ?? 0
      this.#failures.set(key, count + 1)
      this.#failed(error)
      this.addAfter(key, Math.min(firstRetryMs * 2 ** count, lastRetryMs))
    }
  }
}

/** The key of an object in a work queue: `namespace/name`, or the name alone. */
export function keyOf(object: KubeObject): string {
  const { namespace, name } = object.metadata
  return namespace ? `${namespace}/${name}` : name
}

/** The namespace (undefined for cluster-scoped objects) and name of a key. */
export function splitKey(key: string): { namespace: string | undefined; name: string } {
  const [name = '', namespace] = key.split('/').reverse()
  return { namespace, name }
}

/** The input of every controller. Everything that it starts ends with the context. */
export class ControllerContext {
  readonly api: Api
  readonly #report: (error: unknown) => void
  readonly #queues: Workqueue[] = []
  readonly #ends: (() => void)[] = []

  /** `report` is called for each error of a reconcile function. */
  constructor(api: Api, report: (error: unknown) => void) {
    this.api = api
    this.#report = report
  }

  /** A work queue; errors of `reconcile` are reported and retried. */
  queue(reconcile: (key: string) => void): Workqueue {
    const queue = new Workqueue(reconcile, this.#report)
    this.#queues.push(queue)
    return queue
  }

  /**
   * A work queue of the objects of a resource, by their keys: each is reconciled after a change,
   * unless it is being deleted.
   */
  reconcile<T extends KubeObject>(
    resource: string,
    reconcile: (object: T, key: string) => void,
  ): Workqueue {
    const queue = this.queue((key) => {
      const { namespace, name } = splitKey(key)
      const object = this.api.get<T>(resource, namespace, name)
      if (object && !object.metadata.deletionTimestamp) reconcile(object, key)
    })
    this.watch(resource, (type, object) => {
      if (type !== 'DELETED') queue.add(keyOf(object))
    })
    return queue
  }

  /**
   * Calls `handle` for every present object of a resource, then for every change, as Api.watch
   * does.
   */
  watch<T extends KubeObject>(
    resource: string,
    handle: Parameters<typeof this.api.watch<T>>[1],
  ): void {
    this.#ends.push(this.api.watch(resource, handle))
  }

  /** True if all changes have been handled. */
  isIdle(): boolean {
    return this.#queues.every((queue) => queue.isIdle())
  }

  stop(): void {
    for (const end of this.#ends) end()
    for (const queue of this.#queues) queue.stop()
  }
}

/**
 * Writes `status` onto the newest stored object, if there is one; an equal status causes no change.
 */
export function writeStatus<T extends KubeObject & { status?: unknown }>(
  api: Api,
  resource: string,
  { metadata: { namespace, name } }: T,
  status: T['status'],
): void {
  const current = api.get<T>(resource, namespace, name)
  if (current) api.update<T>(resource, { ...current, status }, 'status')
}
