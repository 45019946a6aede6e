import type { Api, DeleteOptions, Draft, KubeObject, WatchHandler } from './api.ts'
import { type JsonObject, wireCopy } from './json.ts'
import { builtInNamespaces } from './object-lifecycle.ts'
import { ObjectWriter } from './object-writer.ts'
import { mergePatch } from './patches.ts'
import { resourceNamed } from './resource.ts'
import { selects } from './selectors.ts'
import { notFound } from './status-error.ts'
import { jsonOf, Store, type Stored, type StoreEvent, storedOf } from './store.ts'

export interface ClusterApiOptions {
  /** Default `10.96.0.0/16`. */
  serviceCIDR?: string
  /** Default 30000–32767. */
  nodePortRange?: [number, number]
  now?: () => Date
}

/** The in-process API, and the store and writer that the HTTPS server uses. */
export interface ClusterApi extends Api {
  readonly store: Store
  readonly writer: ObjectWriter
}

/**
 * An API with the namespaces and the `kubernetes` Service that exist in every cluster. Its state lives in memory. Watch
 * handlers run after the write that caused them has returned (in a microtask), always in the order of the changes.
 */
export function createClusterApi(options: ClusterApiOptions = {}): ClusterApi {
  const now = options.now ?? (() => new Date())
  const serviceCIDR = options.serviceCIDR ?? '10.96.0.0/16'
  const store = new Store()
  const writer = new ObjectWriter(store, { serviceCIDR, nodePortRange: options.nodePortRange ?? [30_000, 32_767] }, now)
  const api = new InProcessApi(store, writer)
  for (const name of builtInNamespaces) {
    api.create('namespaces', undefined, { metadata: { name } })
  }
  api.create('services', 'default', {
    metadata: { name: 'kubernetes', labels: { component: 'apiserver', provider: 'kubernetes' } },
    spec: {
      clusterIP: serviceCIDR.replace(/\d+\/\d+$/, '1'),
      ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 6443 }],
    },
  })
  return api
}

class InProcessApi implements ClusterApi {
  readonly store: Store
  readonly writer: ObjectWriter

  constructor(store: Store, writer: ObjectWriter) {
    this.store = store
    this.writer = writer
  }

  get<T extends KubeObject>(resource: string, namespace: string | undefined, name: string): T | undefined {
    return typed(this.store.get(resourceNamed(resource).name, home(resource, namespace), name))
  }

  list<T extends KubeObject>(
    resource: string,
    options: { namespace?: string; labelSelector?: string; fieldSelector?: string } = {},
  ): T[] {
    const known = resourceNamed(resource)
    const found = this.store.list(known.name, options.namespace)
    return found.filter(selects(known, options)).map((object) => typed<T>(object))
  }

  create<T extends KubeObject>(resource: string, namespace: string | undefined, object: Draft): T {
    return typed(this.writer.create(resourceNamed(resource), namespace, object))
  }

  update<T extends KubeObject>(resource: string, object: T, subresource?: 'status'): T {
    return typed(this.writer.update(resourceNamed(resource), wireCopy<object>(object) as Stored, subresource))
  }

  patch<T extends KubeObject>(
    resource: string,
    namespace: string | undefined,
    name: string,
    patch: Record<string, unknown>,
    subresource?: 'status',
  ): T {
    const current = this.store.get(resourceNamed(resource).name, home(resource, namespace), name)
    if (!current) throw notFound(resourceNamed(resource), name)
    const next = mergePatch(jsonOf(current), jsonOf(patch)) as JsonObject
    return typed(this.writer.update(resourceNamed(resource), storedOf(next), subresource))
  }

  delete(resource: string, namespace: string | undefined, name: string, options: DeleteOptions = {}): void {
    this.writer.delete(resourceNamed(resource), home(resource, namespace), name, options)
  }

  watch<T extends KubeObject>(resource: string, handler: WatchHandler<T>): () => void {
    const name = resourceNamed(resource).name
    const queue: Pick<StoreEvent, 'type' | 'object'>[] = []
    let scheduled = false
    let ended = false
    const drain = (): void => {
      scheduled = false
      for (let event = queue.shift(); event && !ended; event = queue.shift())
        handler(event.type, typed<T>(event.object))
    }
    const enqueue = (event: Pick<StoreEvent, 'type' | 'object'>): void => {
      queue.push(event)
      if (scheduled) return
      scheduled = true
      queueMicrotask(drain)
    }
    for (const object of this.store.list(name)) enqueue({ type: 'ADDED', object })
    const unsubscribe = this.store.subscribe((event) => {
      if (event.resource === name) enqueue(event)
    })
    return () => {
      ended = true
      unsubscribe()
    }
  }
}

function home(resource: string, namespace: string | undefined): string | undefined {
  return resourceNamed(resource).namespaced ? namespace : undefined
}

// The caller names the type of what it stored under a resource; the store itself knows only metadata.
function typed<T extends KubeObject>(object: Stored): T
function typed<T extends KubeObject>(object: Stored | undefined): T | undefined
function typed<T extends KubeObject>(object: Stored | undefined): T | undefined {
  return object as T | undefined
}
