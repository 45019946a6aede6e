import type { V1ServiceSpec } from '@kubernetes/client-node'
import { FieldErrors, validateMeta } from './field-errors.ts'
import { sameJson, valueAt, wireCopy } from './json.ts'
import {
  admitToNamespace,
  builtInNamespaces,
  canGo,
  type DeleteOptions,
  type Draft,
  markDeleted,
  newMetadata,
  timestamp,
} from './object-lifecycle.ts'
import { apiVersionOf, type Resource, resourceNamed, resources } from './resource.ts'
import { allocateService, type ServiceRanges } from './service-allocator.ts'
import { alreadyExists, conflict, forbidden, invalid, notFound } from './status-error.ts'
import type { Store, Stored } from './store.ts'
import { strategyOf } from './strategy.ts'

export interface WriteOptions {
  /** Everything is checked and filled in, nothing is stored. */
  dryRun?: boolean
  /** The client that writes, for `metadata.managedFields`; absent for writes in process, which are not recorded. */
  author?: { manager: string; subresource?: string | undefined }
}

/** All writes to the store: defaults, admission, validation, allocation, versions, deletion rules. */
export class ObjectWriter {
  private readonly store: Store
  private readonly ranges: ServiceRanges
  private readonly now: () => Date

  constructor(store: Store, ranges: ServiceRanges, now: () => Date) {
    this.store = store
    this.ranges = ranges
    this.now = now
  }

  /** Adds an object. Throws 400, 403, 404 (namespace), 409 or 422 as Kubernetes does. */
  create(resource: Resource, namespace: string | undefined, draft: Draft, options: WriteOptions = {}): Stored {
    const object = newMetadata(resource, namespace, draft, this.now())
    const { name } = object.metadata
    admitToNamespace(this.store, resource, object)
    if (this.store.get(resource.name, object.metadata.namespace, name)) throw alreadyExists(resource, name)
    strategyOf(resource.name).prepare?.(object)
    if (resource.generation) object.metadata.generation = 1
    this.check(resource, object)
    this.recordAuthor(resource, object, options)
    if (options.dryRun) return object
    const stored = this.store.put(resource.name, object)
    // The default account of Pods.
    if (resource.name === 'namespaces') {
      this.create(resourceNamed('serviceaccounts'), name, { metadata: { name: 'default' } })
    }
    return stored
  }

  /**
   * Replaces an object, or only its status. Throws 404, 409 for a stale resourceVersion or another uid, 422. An
   * update without changes keeps the resourceVersion.
   */
  update(resource: Resource, object: Stored, subresource?: 'status', options: WriteOptions = {}): Stored {
    const { name, namespace } = object.metadata
    const old = this.store.get(resource.name, namespace, name)
    if (!old) throw notFound(resource, name)
    const next = wireCopy(
      subresource === 'status' ? withStatusOf(old, object, resource) : withSpecOf(old, object, resource),
    )
    const { resourceVersion, uid } = object.metadata
    if (resourceVersion && resourceVersion !== old.metadata.resourceVersion) throw conflict(resource, name)
    if (uid) checkPrecondition(resource, old, 'uid', uid)
    strategyOf(resource.name).prepare?.(next, old)
    if (resource.generation && !sameJson(substanceOf(next), substanceOf(old))) {
      next.metadata.generation = (old.metadata.generation ?? 0) + 1
    }
    if (subresource === undefined) this.check(resource, next, old)
    next.metadata.resourceVersion = old.metadata.resourceVersion
    if (sameJson(next, old)) return old
    this.recordAuthor(resource, next, options)
    if (options.dryRun) return next
    if (next.metadata.deletionTimestamp && canGo(resource, next)) return this.drop(resource, next)
    return this.store.put(resource.name, next)
  }

  /**
   * Deletes an object, or marks it as being deleted while it has finalizers or a grace period. Returns its last state. Throws
   * 404, 403 for built-in namespaces, 409 for failed preconditions.
   */
  delete(
    resource: Resource,
    namespace: string | undefined,
    name: string,
    options: DeleteOptions & WriteOptions = {},
  ): Stored {
    const old = this.store.get(resource.name, namespace, name)
    if (!old) throw notFound(resource, name)
    if (resource.name === 'namespaces' && builtInNamespaces.includes(name)) {
      throw forbidden(resource, name, 'this namespace may not be deleted')
    }
    for (const [field, asked] of Object.entries(options.preconditions ?? {}))
      checkPrecondition(resource, old, field, asked)
    const marked = markDeleted(resource, old, options, this.now())
    if (options.dryRun) return marked
    if (canGo(resource, marked)) return this.drop(resource, marked)
    const kept = sameJson(marked, old) ? old : this.store.put(resource.name, marked)
    if (resource.name === 'namespaces') this.emptyNamespace(name)
    return kept
  }

  private recordAuthor(resource: Resource, { metadata }: Stored, { author }: WriteOptions): void {
    if (!author) return
    const { manager, subresource } = author
    const others = (metadata.managedFields ?? []).filter(
      (entry) => entry.manager !== manager || entry.subresource !== subresource,
    )
    const write = { operation: 'Update', fieldsType: 'FieldsV1', fieldsV1: {} } as const
    const [apiVersion, time] = [apiVersionOf(resource), timestamp(this.now())]
    metadata.managedFields = [...others, { ...write, manager, apiVersion, time, ...(subresource && { subresource }) }]
  }

  private drop(resource: Resource, object: Stored): Stored {
    const last = this.store.remove(resource.name, object)
    const { namespace } = object.metadata
    if (namespace) this.endNamespace(namespace)
    return last
  }

  private emptyNamespace(name: string): void {
    for (const resource of resources) {
      if (!resource.namespaced) continue
      for (const object of this.store.list(resource.name, name)) {
        if (this.store.get(resource.name, name, object.metadata.name)) this.delete(resource, name, object.metadata.name)
      }
    }
    this.endNamespace(name)
  }

  /** A namespace that is being deleted is removed with the last object in it. */
  private endNamespace(name: string): void {
    const namespace = this.store.get('namespaces', undefined, name)
    if (!namespace?.metadata.deletionTimestamp || namespace.metadata.finalizers?.length) return
    const empty = resources.every(
      (resource) => !resource.namespaced || this.store.list(resource.name, name).length === 0,
    )
    if (empty) this.store.remove('namespaces', namespace)
  }

  private check(resource: Resource, object: Stored, old?: Stored): void {
    const errors = new FieldErrors()
    validateMeta(object.metadata, resource, errors)
    strategyOf(resource.name).validate?.(object, errors, old)
    if (resource.name === 'services' && errors.causes.length === 0) {
      const others = this.store.all('services').filter(({ metadata }) => metadata.uid !== object.metadata.uid)
      allocateService(specOf(object), others.map(specOf), this.ranges, errors)
    }
    if (errors.causes.length > 0) throw invalid(resource, object.metadata.name, errors.causes)
  }
}

/** Throws 409 if a field of the object's metadata has another value. */
function checkPrecondition(resource: Resource, { metadata }: Stored, field: string, asked: unknown): void {
  const own = valueAt(metadata, field)
  const why = `Precondition failed: ${field} in precondition: ${asked}, in object meta: ${own}`
  if (asked !== own) throw conflict(resource, metadata.name, why)
}

function specOf(service: Stored): V1ServiceSpec {
  return service.spec as V1ServiceSpec
}

/** The stored object with the client's status; other fields of the client's object are ignored. */
function withStatusOf(old: Stored, object: Stored, resource: Resource): Stored {
  const next: Stored = { ...old, status: object.status }
  // Kubelets publish labels and annotations of their node together with its status.
  if (resource.name === 'nodes') next.metadata = keptMetadata(old, object)
  return next
}

/** The client's object with what belongs to the server or to the status subresource taken from the stored one. */
function withSpecOf(old: Stored, object: Stored, resource: Resource): Stored {
  const next: Stored = { ...object, apiVersion: old.apiVersion, kind: old.kind, metadata: keptMetadata(old, object) }
  if (resource.subresources.includes('status')) next.status = old.status
  if (resource.name === 'namespaces') next.spec = old.spec
  return next
}

function keptMetadata(old: Stored, object: Stored): Stored['metadata'] {
  const { uid, creationTimestamp, generateName, generation, managedFields } = old.metadata
  const { deletionTimestamp, deletionGracePeriodSeconds } = old.metadata
  const created = { uid, creationTimestamp, generateName, generation, managedFields }
  return { ...object.metadata, ...created, deletionTimestamp, deletionGracePeriodSeconds }
}

/** The part of an object whose changes `metadata.generation` counts. */
function substanceOf(object: Stored): unknown {
  if ('spec' in object) return object.spec
  const { metadata: _metadata, status: _status, ...substance } = object
  return substance
}
