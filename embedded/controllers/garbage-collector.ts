import type { KubeObject, OwnerReference } from '../apiserver/api.ts'
import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf, splitKey } from './context.ts'
import { createOwnershipGraph, type Place, patchOwners, resourceOf } from './ownership.ts'
import type { ConfigMap, Event, Namespace, Node, Pod } from './resources.ts'

const foreground = 'foregroundDeletion'
const orphan = 'orphan'

/**
 * Deletes objects without existing owners, and completes the deletion of owners that wait for their dependents
 * (Foreground) or orphan them (Orphan), as pkg/controller/garbagecollector does.
 */
export function startGarbageCollector(context: ControllerContext): void {
  const { api } = context

  const graph = createOwnershipGraph(context, (place, { type, object, previous }) => {
    const owners = [...(object.metadata.ownerReferences ?? []), ...(previous?.metadata.ownerReferences ?? [])]
    if (type !== 'DELETED') {
      if (owners.length > 0 || object.metadata.deletionTimestamp) queue.add(place.uid)
    } else for (const dependent of graph.dependents(place.uid)) queue.add(dependent.uid)
    // An owner in foreground deletion may wait for this object.
    for (const { uid } of owners) {
      const owner = graph.place(uid)
      const waits = owner && find(owner)?.metadata.deletionTimestamp
      if (waits) queue.add(uid)
    }
  })

  const queue = context.queue((uid) => {
    const place = graph.place(uid)
    const object = place && find(place)
    if (!place || !object) return
    const { deletionTimestamp, finalizers = [], ownerReferences = [] } = object.metadata
    if (!deletionTimestamp) {
      if (ownerReferences.length > 0) judge(place, object, ownerReferences)
    } else if (finalizers.includes(orphan)) setFree(place, object)
    else if (finalizers.includes(foreground)) awaitDependents(place, object)
  })

  function find({ resource, namespace, name, uid }: Place): KubeObject | undefined {
    const object = api.get(resource, namespace, name)
    return object?.metadata.uid === uid ? object : undefined
  }

  function judge(place: Place, object: KubeObject, references: readonly OwnerReference[]) {
    const states = references.map((reference) => ({ reference, state: stateOf(reference, object) }))
    const solid = states.filter(({ state }) => state === 'solid').map(({ reference }) => reference)
    if (solid.length === references.length) return
    if (solid.length > 0) {
      patchOwners(api, place.resource, object, solid)
      return
    }
    const awaited = states.some(({ state }) => state === 'waiting')
    const hasDependents = graph.dependents(place.uid).length > 0
    remove(place, awaited && hasDependents ? 'Foreground' : policyOf(object))
  }

  /** A solid owner exists, a waiting one is being deleted after its dependents, a dangling one does not exist. */
  function stateOf(reference: OwnerReference, dependent: KubeObject): 'solid' | 'waiting' | 'dangling' {
    const resource = resourceOf(reference)
    if (!resource) return 'solid'
    const namespace = resource.namespaced ? dependent.metadata.namespace : undefined
    const owner = api.get(resource.name, namespace, reference.name)
    if (owner?.metadata.uid !== reference.uid) return 'dangling'
    const { deletionTimestamp, finalizers = [] } = owner.metadata
    return deletionTimestamp && finalizers.includes(foreground) ? 'waiting' : 'solid'
  }

  function awaitDependents(place: Place, object: KubeObject) {
    const dependents = graph.dependents(place.uid).flatMap((dependent) => {
      const stored = find(dependent)
      return stored ? [{ place: dependent, stored }] : []
    })
    const blocks = (stored: KubeObject) =>
      stored.metadata.ownerReferences?.some(({ uid, blockOwnerDeletion }) => uid === place.uid && blockOwnerDeletion)
    for (const { place: dependent, stored } of dependents) {
      if (!stored.metadata.deletionTimestamp) queue.add(dependent.uid)
    }
    if (!dependents.some(({ stored }) => blocks(stored))) dropFinalizer(place, object, foreground)
  }

  function setFree(place: Place, object: KubeObject) {
    for (const dependent of graph.dependents(place.uid)) {
      const stored = find(dependent)
      if (!stored) continue
      const others = (stored.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== place.uid)
      patchOwners(api, dependent.resource, stored, others)
    }
    dropFinalizer(place, object, orphan)
  }

  function dropFinalizer({ resource, namespace, name, uid }: Place, object: KubeObject, finalizer: string) {
    const left = (object.metadata.finalizers ?? []).filter((item) => item !== finalizer)
    api.patch(resource, namespace, name, { metadata: { uid, finalizers: left.length > 0 ? left : null } })
  }

  function remove({ resource, namespace, name }: Place, propagationPolicy: 'Background' | 'Foreground' | 'Orphan') {
    try {
      api.delete(resource, namespace, name, { propagationPolicy })
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  }
}

/** The propagation policy from a finalizer that was set before the deletion. */
function policyOf({ metadata: { finalizers = [] } }: KubeObject): 'Background' | 'Foreground' | 'Orphan' {
  if (finalizers.includes(orphan)) return 'Orphan'
  return finalizers.includes(foreground) ? 'Foreground' : 'Background'
}

/** The time that pkg/controller/podgc waits before it treats a missing node as deleted. */
const quarantineMs = 40_000

/** Deletes the Pods of nodes that no longer exist; no kubelet confirms their end. */
export function startPodGarbageCollector(context: ControllerContext, quarantine = quarantineMs): void {
  const { api } = context
  const queue = context.queue((node) => {
    if (api.get<Node>('nodes', undefined, node)) return
    for (const { metadata, spec } of api.list<Pod>('pods')) {
      if (spec.nodeName !== node) continue
      try {
        api.delete('pods', metadata.namespace, metadata.name, { gracePeriodSeconds: 0 })
      } catch (error) {
        if (!hasReason(error, 'NotFound')) throw error
      }
    }
  })
  context.watch<Node>('nodes', ({ type, object }) => {
    if (type === 'DELETED') queue.addAfter(keyOf(object), quarantine)
  })
  context.watch<Pod>('pods', ({ object: { spec }, previous }) => {
    const bound = spec.nodeName && spec.nodeName !== previous?.spec.nodeName
    if (bound && !api.get<Node>('nodes', undefined, spec.nodeName ?? ''))
      queue.addAfter(spec.nodeName ?? '', quarantine)
  })
}

const serviceAccount = 'default'
const rootCertificate = 'kube-root-ca.crt'

/**
 * Gives every namespace the `default` ServiceAccount and the `kube-root-ca.crt` ConfigMap with the cluster's CA, and
 * restores them when they are changed or deleted. The API itself deletes the content of a deleted namespace.
 */
export function startNamespaceController(context: ControllerContext, caCertificate: string): void {
  const { api } = context

  const queue = context.queue((name) => {
    const namespace = api.get<Namespace>('namespaces', undefined, name)
    if (!namespace || namespace.metadata.deletionTimestamp) return
    if (!api.get('serviceaccounts', name, serviceAccount)) {
      ensure('serviceaccounts', name, { metadata: { name: serviceAccount, namespace: name } })
    }
    const data = { 'ca.crt': caCertificate }
    const stored = api.get<ConfigMap>('configmaps', name, rootCertificate)
    if (!stored) ensure('configmaps', name, { metadata: { name: rootCertificate, namespace: name, annotations }, data })
    else if (stored.data?.['ca.crt'] !== caCertificate) api.update<ConfigMap>('configmaps', { ...stored, data })
  })

  function ensure(resource: string, namespace: string, object: Record<string, unknown>) {
    try {
      api.create(resource, namespace, object)
    } catch (error) {
      if (!hasReason(error, 'AlreadyExists')) throw error
    }
  }

  context.watch<Namespace>('namespaces', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  for (const [resource, name] of [
    ['serviceaccounts', serviceAccount],
    ['configmaps', rootCertificate],
  ] as const) {
    context.watch(resource, ({ type, object }) => {
      if (type !== 'ADDED' && object.metadata.name === name) queue.add(object.metadata.namespace ?? '')
    })
  }
}

const annotations = {
  'kubernetes.io/description':
    'The certificate of the authority that signed the API server’s; Pods verify the server with it.',
}

/** kube-apiserver's --event-ttl. */
const lifetimeMs = 3_600_000

/** Deletes Events an hour after their last change, as kube-apiserver lets them expire. */
export function startEventExpiry(context: ControllerContext, lifetime = lifetimeMs): void {
  const { api } = context
  const lastChange = new Map<string, number>()
  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const left = (lastChange.get(key) ?? 0) + lifetime - Date.now()
    if (left > 0) {
      queue.addAfter(key, left)
      return
    }
    lastChange.delete(key)
    try {
      api.delete('events', namespace, name)
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  })
  context.watch<Event>('events', ({ type, object }) => {
    const key = keyOf(object)
    if (type === 'DELETED') lastChange.delete(key)
    else lastChange.set(key, Date.now())
    if (type === 'ADDED') queue.addAfter(key, lifetime)
  })
}
