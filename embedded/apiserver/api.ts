import type { V1ServiceSpec } from '@kubernetes/client-node'
import { FieldErrors } from './field-errors.ts'
import { jsonAt, sameJson, wireCopy } from './json.ts'
import {
  admitToNamespace,
  builtInNamespaces,
  canGo,
  type DeleteOptions,
  type Draft,
  markDeleted,
  newMetadata,
  substanceOf,
  timestamp,
  withSpecOf,
  withStatusOf,
} from './object-lifecycle.ts'
import { mergePatch } from './patches.ts'
import { apiVersionOf, type Resource, resourceNamed, resources } from './resource.ts'
import { type SelectorQuery, selects } from './selectors.ts'
import { allocateService, type ServiceRanges } from './service-allocator.ts'
import { alreadyExists, conflict, forbidden, invalid, notFound } from './status-error.ts'
import {
  jsonOf,
  type KubeObject,
  type ObjectMeta,
  Store,
  type Stored,
  type StoreEvent,
  storedOf,
} from './store.ts'
import { prepare, validate, validateMetadata } from './strategies.ts'

export type { DeleteOptions, Draft } from './object-lifecycle.ts'
export type { KubeObject } from './store.ts'

interface Author {
  manager: string
  subresource?: string
}

export interface WriteOptions {
  /** Everything is checked and filled in, nothing is stored. */
  dryRun?: boolean
  /**
   * The client that writes, for `metadata.managedFields`; absent for writes in process, which are
   * not recorded.
   */
  author?: Author
}

/**
 * The API in process and synchronous, for controllers, scheduler, kubelet, kube-proxy and the HTTPS
 * server: defaults, admission, validation, allocation, versions, deletion rules. A resource is
 * named by its plural, which is unique here across groups; `namespace` is undefined for
 * cluster-scoped kinds. Callers name the type of an object (client-node's V1Pod and so on fit).
 */
export class Api {
  readonly store = new Store()
  readonly #ranges: ServiceRanges

  constructor(ranges: ServiceRanges) {
    this.#ranges = ranges
  }

  /** The stored object (never mutate it: structuredClone first), or undefined. */
  get<T extends KubeObject>(
    resource: string,
    namespace: string | undefined,
    name: string,
  ): T | undefined {
    return this.store.get(resource, namespace, name)
  }

  /** The stored object; throws 404 if there is none. */
  read<T extends KubeObject = Stored>(
    resource: string,
    namespace: string | undefined,
    name: string,
  ): T {
    const object = this.get<T>(resource, namespace, name)
    if (!object) throw notFound(resourceNamed(resource), name)
    return object
  }

  list<T extends KubeObject>(
    resource: string,
    options: { namespace?: string | undefined } & SelectorQuery = {},
  ): T[] {
    return this.store
      .list<T>(resource, options.namespace)
      .filter(selects(resourceNamed(resource), options))
  }

  /**
   * Adds an object. Throws StatusError: 400, 403, 404 (namespace), 422 Invalid, and last 409
   * AlreadyExists. Kubernetes (1.20–1.36) finds out that an object exists when it writes to etcd,
   * so everything else is checked before (registry/generic/registry/store.go, Create):
   *
   * | checked before AlreadyExists | by | answer |
   * |---|---|---|
   * | the namespace exists, and is not being deleted | admission, NamespaceLifecycle | 404, 403 |
   * | the Pod's ServiceAccount exists | admission, ServiceAccount | 403 (not here: every account is
   * accepted) |
   * | names, labels and all fields are valid | rest.BeforeCreate | 422 |
   * | the requested cluster IP is in the range and free | BeginCreate of Services | 422 |
   * | requested node ports, also for health checks, are in the range and free | BeginCreate of
   * Services | 422 |
   *
   * So a second `create` of a Service with a fixed node port is refused because of the port, which
   * the Service itself has.
   */
  create<T extends KubeObject>(
    resourceName: string,
    namespace: string | undefined,
    draft: Draft,
    options: WriteOptions = {},
  ): T {
    const resource = resourceNamed(resourceName)
    const object = newMetadata(resource, namespace, draft)
    const { name } = object.metadata
    admitToNamespace(this.store, resource, object)
    prepare(resource, object)
    if (resource.generation) object.metadata.generation = 1
    this.#check(resource, object)
    if (this.store.get(resource.name, object.metadata.namespace, name))
      throw alreadyExists(resource, name)
    const stored = this.#settle(resource, object, undefined, options)
    // The default account of Pods.
    if (resource.name === 'namespaces' && !options.dryRun)
      this.create('serviceaccounts', name, { metadata: { name: 'default' } })
    return stored as T
  }

  /**
   * Replaces an object, or only its status. Throws 404, 409 Conflict for a stale
   * metadata.resourceVersion or another uid, 422. An update without changes keeps the
   * resourceVersion.
   */
  update<T extends KubeObject>(
    resourceName: string,
    input: T,
    subresource?: 'status',
    options: WriteOptions = {},
  ): T {
    const resource = resourceNamed(resourceName)
    const object = storedOf(input)
    const { name, namespace, resourceVersion, uid } = object.metadata
    const old = this.read(resourceName, namespace, name)
    const next = wireCopy(
      subresource === 'status'
        ? withStatusOf(old, object, resource)
        : withSpecOf(old, object, resource),
    )
    if (resourceVersion && resourceVersion !== old.metadata.resourceVersion)
      throw conflict(resource, name)
    if (uid) checkPrecondition(resource, old, 'uid', uid)
    prepare(resource, next, old)
    if (resource.generation && !sameJson(substanceOf(next), substanceOf(old)))
      next.metadata.generation = (old.metadata.generation ?? 0) + 1
    if (subresource === undefined) this.#check(resource, next, old)
    else refuseFaults(resource, next, (errors) => validateMetadata(resource, next, errors))
    next.metadata.resourceVersion = old.metadata.resourceVersion
    return this.#settle(resource, next, old, options) as T
  }

  /** JSON merge patch (RFC 7386). */
  patch<T extends KubeObject>(
    resource: string,
    namespace: string | undefined,
    name: string,
    patch: object,
    subresource?: 'status',
  ): T {
    const next = mergePatch(jsonOf(this.read(resource, namespace, name)), jsonOf(patch))
    return this.update(resource, storedOf(next) as KubeObject as T, subresource)
  }

  /**
   * Deletes an object, or marks it as being deleted while it has finalizers or a grace period: a
   * Pod on a node waits for its kubelet, which deletes again with `gracePeriodSeconds: 0`. Returns
   * its last state. Throws 404, 403 for built-in namespaces, 409 for failed preconditions.
   */
  delete(
    resourceName: string,
    namespace: string | undefined,
    name: string,
    options: DeleteOptions & WriteOptions = {},
  ): Stored {
    const resource = resourceNamed(resourceName)
    const old = this.read(resourceName, namespace, name)
    if (resourceName === 'namespaces' && builtInNamespaces.includes(name))
      throw forbidden(resource, name, 'this namespace may not be deleted')
    for (const [field, asked] of Object.entries(options.preconditions ?? {}))
      checkPrecondition(resource, old, field, asked)
    const last = this.#settle(resource, markDeleted(resource, old, options), old, options)
    if (resourceName === 'namespaces' && !options.dryRun) {
      for (const [inside, object] of this.#contents(name))
        this.delete(inside.name, name, object.metadata.name)
      this.#endNamespace(name)
    }
    return last
  }

  /**
   * First an ADDED for every present object, then each change, in order: after the write that
   * caused it has returned, in a microtask; `previous` is the old state, if there was one. Returns
   * a function that ends the watch.
   */
  watch<T extends KubeObject>(
    resource: string,
    handler: (type: StoreEvent['type'], object: T, previous: T | undefined) => void,
  ): () => void {
    let ended = false
    const notify = (type: StoreEvent['type'], object: KubeObject, previous?: KubeObject) =>
      queueMicrotask(() => {
        if (!ended) handler(type, object as T, previous as T | undefined)
      })
    for (const object of this.store.list(resource)) notify('ADDED', object)
    const unsubscribe = this.store.subscribe((event) => {
      if (event.resource === resource) notify(event.type, event.object, event.previous)
    })
    return () => {
      ended = true
      unsubscribe()
    }
  }

  /**
   * Stores a new state; removes the object instead if it is being deleted and nothing waits for it.
   */
  #settle(
    resource: Resource,
    next: Stored,
    old: Stored | undefined,
    options: WriteOptions,
  ): Stored {
    if (old && sameJson(next, old)) return old
    if (options.author) recordAuthor(resource, next.metadata, options.author)
    if (options.dryRun) return next
    if (!canGo(resource, next)) return this.store.put(resource.name, next)
    const last = this.store.remove(resource.name, next)
    if (next.metadata.namespace) this.#endNamespace(next.metadata.namespace)
    return last
  }

  #contents(namespace: string): [Resource, Stored][] {
    const inside = resources.filter((resource) => resource.namespaced)
    return inside.flatMap((resource) =>
      this.store.list(resource.name, namespace).map((object) => [resource, object]),
    )
  }

  /** A namespace that is being deleted is removed with the last object in it. */
  #endNamespace(name: string): void {
    const namespace = this.store.get('namespaces', undefined, name)
    if (!namespace?.metadata.deletionTimestamp || namespace.metadata.finalizers?.length) return
    if (this.#contents(name).length === 0) this.store.remove('namespaces', namespace)
  }

  #check(resource: Resource, object: Stored, old?: Stored): void {
    refuseFaults(resource, object, (errors) => {
      validate(resource, object, errors, old)
      if (resource.name !== 'services' || errors.causes.length > 0) return
      const others = this.store
        .all('services')
        .filter(({ metadata }) => metadata.uid !== object.metadata.uid)
      allocateService(specOf(object), others.map(specOf), this.#ranges, errors)
    })
  }
}

/** Throws 422 with the faults of an object that are found. */
function refuseFaults(
  resource: Resource,
  object: Stored,
  find: (errors: FieldErrors) => void,
): void {
  const errors = new FieldErrors()
  find(errors)
  if (errors.causes.length > 0) throw invalid(resource, object.metadata.name, errors.causes)
}

function recordAuthor(resource: Resource, metadata: ObjectMeta, author: Author): void {
  const others = (metadata.managedFields ?? []).filter(
    (entry) => entry.manager !== author.manager || entry.subresource !== author.subresource,
  )
  const write = { operation: 'Update', fieldsType: 'FieldsV1', fieldsV1: {} } as const
  metadata.managedFields = [
    ...others,
    { ...write, ...author, apiVersion: apiVersionOf(resource), time: timestamp() },
  ]
}

/** Throws 409 if a field of the object's metadata has another value. */
function checkPrecondition(
  resource: Resource,
  { metadata }: Stored,
  field: string,
  asked: unknown,
): void {
  const own = jsonAt(metadata, field)
  const why = `Precondition failed: ${field} in precondition: ${asked}, in object meta: ${own}`
  if (asked !== own) throw conflict(resource, metadata.name, why)
}

function specOf(service: Stored): V1ServiceSpec {
  return service.spec as V1ServiceSpec
}

/**
 * An API in memory with the namespaces and the `kubernetes` Service that exist in every cluster.
 */
export function createClusterApi({
  serviceCIDR = '10.96.0.0/16',
  nodePortRange = [30_000, 32_767],
}: Partial<ServiceRanges> = {}): Api {
  const api = new Api({ serviceCIDR, nodePortRange })
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
