import { randomInt, randomUUID } from 'node:crypto'
import type { V1Pod } from '@kubernetes/client-node'
import { wireCopy } from './json.ts'
import { apiVersionOf, type Resource, resourceNamed } from './resource.ts'
import { badRequest, forbidden, notFound } from './status-error.ts'
import type { KubeObject, ObjectMeta, Store, Stored } from './store.ts'

/** An object to be created: metadata may be partial. */
export type Draft = Partial<Omit<KubeObject, 'metadata'>> & { metadata?: Partial<ObjectMeta> } & Record<string, unknown>

export interface DeleteOptions {
  gracePeriodSeconds?: number
  /** The `uid` or `resourceVersion` that the object must have. */
  preconditions?: object
}

/** The namespaces of every cluster, which may not be deleted. */
export const builtInNamespaces = ['default', 'kube-system', 'kube-public', 'kube-node-lease']

/** A time as the API stores it: RFC 3339, UTC, whole seconds (metav1.Time). */
export function timestamp(time: Date | number = Date.now()): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`
}

/**
 * A new object from a draft, with the metadata that the server sets. Throws 400 when names contradict the
 * request.
 */
export function newMetadata(resource: Resource, namespace: string | undefined, draft: Draft, now: Date): Stored {
  const { apiVersion: _version, kind: _kind, metadata: given = {}, ...content } = wireCopy(draft)
  const { labels, annotations, ownerReferences, finalizers, generateName, resourceVersion } = given
  const own = given.namespace || namespace
  if (resource.namespaced && namespace !== undefined && own !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  }
  if (resource.namespaced && !own) throw badRequest('an object of this kind needs a namespace')
  if (resourceVersion) throw badRequest('resourceVersion should not be set on objects to be created')
  const metadata: ObjectMeta = wireCopy({
    name: given.name || (generateName ? generateName.slice(0, 58) + suffix() : ''),
    ...(resource.namespaced && own && { namespace: own }),
    ...{ uid: randomUUID(), resourceVersion: '', creationTimestamp: timestamp(now) },
    ...{ generateName, labels, annotations, ownerReferences, finalizers },
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

/** Five characters without vowels and ambiguous characters, as in names from generateName. */
function suffix(): string {
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789'
  return Array.from({ length: 5 }, () => alphabet[randomInt(alphabet.length)]).join('')
}

/** The object with its deletion recorded: time and grace period. */
export function markDeleted(resource: Resource, old: Stored, options: DeleteOptions, now: Date): Stored {
  const object = wireCopy(old)
  const { metadata } = object
  const grace = resource.name === 'pods' ? podGrace(object as Stored & V1Pod, options) : 0
  const before = metadata.deletionGracePeriodSeconds
  if (metadata.deletionTimestamp === undefined) {
    metadata.deletionTimestamp = timestamp(new Date(now.getTime() + grace * 1000))
    metadata.deletionGracePeriodSeconds = grace
    if (resource.generation) metadata.generation = (metadata.generation ?? 0) + 1
  } else if (before !== undefined && options.gracePeriodSeconds !== undefined && grace < before) {
    // A second delete may only shorten the wait.
    const end = Date.parse(metadata.deletionTimestamp) - (before - grace) * 1000
    metadata.deletionTimestamp = timestamp(new Date(end))
    metadata.deletionGracePeriodSeconds = grace
  }
  if (resource.name === 'namespaces') object.status = { ...(object.status ?? {}), phase: 'Terminating' }
  return object
}

/** Whether a deleted object is removed now: nothing waits for finalizers, a kubelet or the content of a namespace. */
export function canGo({ name }: Resource, { metadata }: Stored): boolean {
  const { finalizers = [], deletionGracePeriodSeconds = 0 } = metadata
  return finalizers.length === 0 && name !== 'namespaces' && (name !== 'pods' || deletionGracePeriodSeconds === 0)
}

/** Pods that no kubelet runs, or that have ended, need no grace. */
function podGrace(pod: V1Pod, options: DeleteOptions): number {
  if (!pod.spec?.nodeName || pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed') return 0
  return Math.max(0, options.gracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30)
}
