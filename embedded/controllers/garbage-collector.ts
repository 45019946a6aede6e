import type { KubeObject, OwnerReference } from '../apiserver/api.ts'
import { apiVersionOf, resources } from '../apiserver/resource.ts'
import { type ControllerContext, createIndex, keyOf, remove, splitKey } from './context.ts'
import { patchOwners } from './ownership.ts'
import type { ConfigMap, Event, Namespace } from './resources.ts'

const foreground = 'foregroundDeletion'
const orphan = 'orphan'

// Events own nothing and have no owner; there are too many of them to index.
const collected = resources.filter(({ name }) => name !== 'events')

/** An object and the name of its resource. */
interface Member {
  resource: string
  object: KubeObject
}

/** The key of an object in the collector's queue. */
const memberKey = ({ resource, object }: Member) => `${resource} ${keyOf(object)}`

/**
 * Deletes objects without existing owners, and completes the deletion of owners that wait for their dependents
 * (Foreground) or orphan them (Orphan), as pkg/controller/garbagecollector does.
 */
export function startGarbageCollector(context: ControllerContext): void {
  const { api } = context
  const ownerUids = ({ metadata }: KubeObject) => (metadata.ownerReferences ?? []).map(({ uid }) => uid)
  const indexes = collected.map(({ name }) => ({ resource: name, find: createIndex(context, name, ownerUids) }))
  const dependentsOf = ({ metadata: { uid } }: KubeObject): Member[] =>
    indexes.flatMap(({ resource, find }) => find(uid).map((object) => ({ resource, object })))

  const queue = context.queue((key) => {
    const [resource = '', place = ''] = key.split(' ')
    const { namespace, name } = splitKey(place)
    const object = api.get(resource, namespace, name)
    if (!object) return
    const { deletionTimestamp, finalizers = [] } = object.metadata
    const member = { resource, object }
    if (!deletionTimestamp) judge(member)
    else if (finalizers.includes(orphan)) release(member)
    else if (finalizers.includes(foreground)) awaitDependents(member)
  })

  for (const { name: resource } of collected) {
    context.watch<KubeObject>(resource, ({ type, object, previous }) => {
      const { ownerReferences, deletionTimestamp } = object.metadata
      if (type !== 'DELETED') {
        if (ownerReferences || deletionTimestamp) queue.add(memberKey({ resource, object }))
      } else for (const dependent of dependentsOf(object)) queue.add(memberKey(dependent))
      // An owner in foreground deletion may wait for this object.
      for (const state of previous ? [previous, object] : [object])
        for (const reference of state.metadata.ownerReferences ?? []) {
          const owner = ownerOf(reference, state)
          if (owner?.object?.metadata.deletionTimestamp) queue.add(memberKey({ ...owner, object: owner.object }))
        }
    })
  }

  /** The object of a reference, if it exists; undefined for kinds that this API does not serve. */
  function ownerOf({ apiVersion, kind, name, uid }: OwnerReference, dependent: KubeObject) {
    const resource = collected.find((own) => own.kind === kind && apiVersionOf(own) === apiVersion)
    if (!resource) return undefined
    const owner = api.get(resource.name, resource.namespaced ? dependent.metadata.namespace : undefined, name)
    return { resource: resource.name, object: owner?.metadata.uid === uid ? owner : undefined }
  }

  /** Removes references to owners that do not exist or wait for this object; deletes an object without other owners. */
  function judge({ resource, object }: Member) {
    const { ownerReferences: references = [], finalizers = [] } = object.metadata
    const isWaiting = ({ metadata }: KubeObject) =>
      Boolean(metadata.deletionTimestamp && metadata.finalizers?.includes(foreground))
    const owners = references.map((reference) => ownerOf(reference, object))
    const solid = references.filter((_, index) => {
      const owner = owners[index]
      return !owner || (owner.object && !isWaiting(owner.object))
    })
    if (solid.length === references.length) return
    if (solid.length > 0) {
      patchOwners(api, resource, object, solid)
      return
    }
    const isAwaited = owners.some((owner) => owner?.object && isWaiting(owner.object))
    const inForeground = finalizers.includes(foreground) || (isAwaited && dependentsOf(object).length > 0)
    const policy = finalizers.includes(orphan) ? 'Orphan' : inForeground ? 'Foreground' : 'Background'
    remove(api, resource, object.metadata, { propagationPolicy: policy })
  }

  function awaitDependents(member: Member) {
    const { uid } = member.object.metadata
    const dependents = dependentsOf(member.object)
    for (const dependent of dependents)
      if (!dependent.object.metadata.deletionTimestamp) queue.add(memberKey(dependent))
    const isBlocked = dependents.some(({ object: { metadata } }) =>
      metadata.ownerReferences?.some((reference) => reference.uid === uid && reference.blockOwnerDeletion),
    )
    if (!isBlocked) dropFinalizer(member, foreground)
  }

  function release(member: Member) {
    const { uid } = member.object.metadata
    for (const { resource, object } of dependentsOf(member.object)) {
      const others = (object.metadata.ownerReferences ?? []).filter((reference) => reference.uid !== uid)
      patchOwners(api, resource, object, others)
    }
    dropFinalizer(member, orphan)
  }

  function dropFinalizer({ resource, object }: Member, finalizer: string) {
    const { namespace, name, uid, finalizers = [] } = object.metadata
    const left = finalizers.filter((item) => item !== finalizer)
    api.patch(resource, namespace, name, { metadata: { uid, finalizers: left.length > 0 ? left : null } })
  }
}

const rootCertificate = 'kube-root-ca.crt'

/**
 * Gives every namespace the `kube-root-ca.crt` ConfigMap with the cluster's CA, and restores it. The API itself creates
 * the `default` ServiceAccount, and deletes the content of a deleted namespace.
 */
export function startNamespaceController(context: ControllerContext, caCertificate: string): void {
  const { api } = context
  const data = { 'ca.crt': caCertificate }
  const queue = context.reconcile<Namespace>('namespaces', ({ metadata: { name, deletionTimestamp } }) => {
    if (deletionTimestamp) return
    const stored = api.get<ConfigMap>('configmaps', name, rootCertificate)
    if (!stored) api.create('configmaps', name, { metadata: { name: rootCertificate, namespace: name }, data })
    else if (stored.data?.['ca.crt'] !== caCertificate) api.update<ConfigMap>('configmaps', { ...stored, data })
  })
  context.watch('configmaps', ({ type, object: { metadata } }) => {
    if (type !== 'ADDED' && metadata.name === rootCertificate) queue.add(metadata.namespace ?? '')
  })
}

/** kube-apiserver's --event-ttl. */
const lifetimeMs = 3_600_000

/** Deletes Events an hour after their last change, as kube-apiserver lets them expire. */
export function startEventExpiry(context: ControllerContext, lifetime = lifetimeMs): void {
  const lastChange = new Map<string, number>()
  const queue = context.queue((key) => {
    const left = (lastChange.get(key) ?? 0) + lifetime - Date.now()
    if (left > 0) queue.addAfter(key, left)
    else remove(context.api, 'events', splitKey(key))
  })
  context.watch<Event>('events', ({ type, object }) => {
    const key = keyOf(object)
    if (type === 'DELETED') lastChange.delete(key)
    else lastChange.set(key, Date.now())
    if (type === 'ADDED') queue.addAfter(key, lifetime)
  })
}
