import { wireCopy } from './json.ts'
import { builtInNamespaces, type DeleteOptions, type Draft } from './object-lifecycle.ts'
import { ObjectWriter } from './object-writer.ts'
import { mergePatch } from './patches.ts'
import { resourceNamed } from './resource.ts'
import { type SelectorQuery, selects } from './selectors.ts'
import type { ServiceRanges } from './service-allocator.ts'
import { notFound } from './status-error.ts'
import { jsonOf, type KubeObject, Store, type Stored, type StoreEvent, storedOf } from './store.ts'

export type { DeleteOptions, Draft } from './object-lifecycle.ts'
export type { KubeObject, OwnerReference } from './store.ts'

/**
 * The API in process and synchronous, for controllers, scheduler, kubelet and kube-proxy: with the same defaults, validation and
 * conflicts as over HTTPS. A resource is named by its plural, which is unique here across groups; `namespace` is undefined for
 * cluster-scoped kinds. Callers name the type of an object (client-node's V1Pod and so on fit).
 */
export class Api {
  readonly store = new Store()
  readonly writer: ObjectWriter

  constructor(ranges: ServiceRanges, now: () => Date) {
    this.writer = new ObjectWriter(this.store, ranges, now)
  }

  /** The stored object (never mutate it: structuredClone first), or undefined. */
  get<T extends KubeObject>(resource: string, namespace: string | undefined, name: string): T | undefined {
    return typed(this.store.get(resourceNamed(resource).name, namespace, name))
  }

  list<T extends KubeObject>(resource: string, options: { namespace?: string } & SelectorQuery = {}): T[] {
    const known = resourceNamed(resource)
    const found = this.store.list(known.name, options.namespace)
    return found.filter(selects(known, options)).map((object) => typed<T>(object))
  }

  /** Throws StatusError: 409 AlreadyExists, 422 Invalid, 404 when the namespace is missing. */
  create<T extends KubeObject>(resource: string, namespace: string | undefined, object: Draft): T {
    return typed(this.writer.create(resourceNamed(resource), namespace, object))
  }

  /** Whole-object replace; a stale metadata.resourceVersion throws 409 Conflict. */
  update<T extends KubeObject>(resource: string, object: T, subresource?: 'status'): T {
    return typed(this.writer.update(resourceNamed(resource), storedOf(wireCopy(object)), subresource))
  }

  /** JSON merge patch (RFC 7386). */
  patch<T extends KubeObject>(
    resource: string,
    namespace: string | undefined,
    name: string,
    patch: object,
    subresource?: 'status',
  ): T {
    const current = this.store.get(resourceNamed(resource).name, namespace, name)
    if (!current) throw notFound(resourceNamed(resource), name)
    const next = storedOf(mergePatch(jsonOf(current), jsonOf(patch)))
    return typed(this.writer.update(resourceNamed(resource), next, subresource))
  }

  /**
   * Graceful for Pods bound to a node: sets deletionTimestamp and waits for the kubelet, which deletes again with
   * `gracePeriodSeconds: 0`. Objects with finalizers wait for them. Missing objects throw 404.
   */
  delete(resource: string, namespace: string | undefined, name: string, options: DeleteOptions = {}): void {
    this.writer.delete(resourceNamed(resource), namespace, name, options)
  }

  /**
   * First an ADDED for every present object, then each change, in order: after the write that caused it has returned, in a
   * microtask; `previous` is the old state, if there was one. Returns a function that ends the watch.
   */
  watch<T extends KubeObject>(
    resource: string,
    handler: (type: StoreEvent['type'], object: T, previous: T | undefined) => void,
  ): () => void {
    const { name } = resourceNamed(resource)
    let ended = false
    const notify = ({ type, object, previous }: Pick<StoreEvent, 'type' | 'object' | 'previous'>) =>
      queueMicrotask(() => {
        if (!ended) handler(type, typed<T>(object), typed<T>(previous))
      })
    for (const object of this.store.list(name)) notify({ type: 'ADDED', object })
    const unsubscribe = this.store.subscribe((event) => {
      if (event.resource === name) notify(event)
    })
    return () => {
      ended = true
      unsubscribe()
    }
  }
}

// The caller names the type of what it stored under a resource; the store itself knows only metadata.
function typed<T extends KubeObject>(object: Stored): T
function typed<T extends KubeObject>(object: Stored | undefined): T | undefined
function typed<T extends KubeObject>(object: Stored | undefined): T | undefined {
  return object as T | undefined
}

/** An API in memory with the namespaces and the `kubernetes` Service that exist in every cluster. */
export function createClusterApi({
  serviceCIDR = '10.96.0.0/16',
  nodePortRange = [30_000, 32_767],
  now = () => new Date(),
}: Partial<ServiceRanges> & { now?: () => Date } = {}): Api {
  const api = new Api({ serviceCIDR, nodePortRange }, now)
  for (const name of builtInNamespaces) api.create('namespaces', undefined, { metadata: { name } })
  api.create('services', 'default', {
    metadata: { name: 'kubernetes', labels: { component: 'apiserver', provider: 'kubernetes' } },
    spec: {
      clusterIP: serviceCIDR.replace(/\d+\/\d+$/, '1'),
      ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 6443 }],
    },
  })
  return api
}
