import { randomInt, randomUUID } from 'node:crypto'
import type { V1Pod } from '@kubernetes/client-node'
import { wireCopy } from './json.ts'
import { apiVersionOf, type Resource, resourceNamed } from './resource.ts'
import { badRequest, forbidden, notFound } from './status-error.ts'
import type { KubeObject, ObjectMeta, Store, Stored } from './store.ts'

/** An object to be created: metadata may be partial. */
export type Draft = Partial<Omit<KubeObject, 'metadata'>> & {
  metadata?: Partial<ObjectMeta>
} & Record<string, unknown>

export interface DeleteOptions {
  gracePeriodSeconds?: number | undefined
  /** The `uid` or `resourceVersion` that the object must have. */
  preconditions?: object | undefined
}

/** The namespaces of every cluster, which may not be deleted. */
export const builtInNamespaces = ['default', 'kube-system', 'kube-public', 'kube-node-lease']

/** A time as the API stores it: RFC 3339, UTC, whole seconds (metav1.Time). */
export function timestamp(time: Date | number = Date.now()): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`
}

/**
 * A new object from a draft, with the metadata that the server sets. Throws 400 without a namespace
 * or with a resourceVersion.
 */
export function newMetadata(
  resource: Resource,
  namespace: string | undefined,
  draft: Draft,
): Stored {
  const {
    apiVersion: _version,
    kind: _kind,
    metadata: draftMetadata = {},
    ...content
  } = wireCopy(draft)
  const { labels, annotations, ownerReferences, finalizers, generateName, resourceVersion } =
    draftMetadata
  const own = namespace ?? draftMetadata.namespace
  if (resource.namespaced && !own) throw badRequest('an object of this kind needs a namespace')
  if (resourceVersion)
    throw badRequest('resourceVersion should not be set on objects to be created')
  const metadata: ObjectMeta = wireCopy({
    name: draftMetadata.name || (generateName ? generateName.slice(0, 58) + suffix() : ''),
    ...(resource.namespaced && own && { namespace: own }),
    uid: randomUUID(),
    resourceVersion: '',
    creationTimestamp: timestamp(),
    generateName,
    labels,
    annotations,
    ownerReferences,
    finalizers,
  })
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata, ...content }
}

/** Refuses objects for a namespace that is missing (404) or being deleted (403). */
export function admitToNamespace(store: Store, resource: Resource, object: Stored): void {
  const { namespace, name } = object.metadata
  if (!namespace) return
  const home = store.get('namespaces', undefined, namespace)
  if (!home) throw notFound(resourceNamed('namespaces'), namespace)
  if (!home.metadata.deletionTimestamp) return
  throw forbidden(
    resource,
    name,
    `unable to create new content in namespace ${namespace} because it is being terminated`,
  )
}

/**
 * apimachinery's alphabet for generated names: no vowels and no 0, 1, 3, to avoid words and
 * misreading.
 */
export const nameAlphabet = 'bcdfghjklmnpqrstvwxz2456789'

/** The end of a name from generateName. */
function suffix(): string {
  return Array.from({ length: 5 }, () => nameAlphabet[randomInt(nameAlphabet.length)]).join('')
}

/** The stored object with the client's status; other fields of the client's object are ignored. */
export function withStatusOf(old: Stored, object: Stored, resource: Resource): Stored {
  const next: Stored = { ...old, status: object.status }
  // Kubelets publish labels and annotations of their node together with its status.
  if (resource.name === 'nodes') next.metadata = keptMetadata(old, object)
  return next
}

/**
 * The client's object with what belongs to the server or to the status subresource taken from the
 * stored one.
 */
export function withSpecOf(old: Stored, object: Stored, resource: Resource): Stored {
  const next: Stored = {
    ...object,
    apiVersion: old.apiVersion,
    kind: old.kind,
    metadata: keptMetadata(old, object),
  }
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
export function substanceOf(object: Stored): unknown {
  if ('spec' in object) return object.spec
  const { metadata: _metadata, status: _status, ...substance } = object
  return substance
}

/**
 * The object with its deletion recorded: time and grace period, which a second delete may only
 * shorten.
 */
export function markDeleted(resource: Resource, old: Stored, options: DeleteOptions): Stored {
  const object = wireCopy(old)
  const { metadata } = object
  const grace = resource.name === 'pods' ? podGrace(object as Stored & V1Pod, options) : 0
  const { deletionTimestamp: end, deletionGracePeriodSeconds: before = 0 } = metadata
  if (end === undefined || (options.gracePeriodSeconds !== undefined && grace < before)) {
    const start = end === undefined ? Date.now() : Date.parse(end) - before * 1000
    metadata.deletionTimestamp = timestamp(start + grace * 1000)
    metadata.deletionGracePeriodSeconds = grace
  }
  if (resource.generation && end === undefined) metadata.generation = (metadata.generation ?? 0) + 1
  if (resource.name === 'namespaces')
    object.status = { ...(object.status ?? {}), phase: 'Terminating' }
  return object
}

/**
 * Whether an object is removed now: it is being deleted, and no finalizer, kubelet or content of a
 * namespace holds it.
 */
export function canGo({ name }: Resource, { metadata }: Stored): boolean {
  const { deletionTimestamp, finalizers = [], deletionGracePeriodSeconds = 0 } = metadata
  const isKept =
    finalizers.length > 0 ||
    name === 'namespaces' ||
    (name === 'pods' && deletionGracePeriodSeconds > 0)
  return deletionTimestamp !== undefined && !isKept
}

/** Pods that no kubelet runs, or that have ended, need no grace. */
function podGrace(pod: V1Pod, options: DeleteOptions): number {
  if (!pod.spec?.nodeName || pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed')
    return 0
  return Math.max(0, options.gracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30)
}
