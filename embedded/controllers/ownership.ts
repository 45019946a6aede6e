import type { V1LabelSelector, V1OwnerReference } from '@kubernetes/client-node'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import type { Api, KubeObject } from '../apiserver/api.ts'
import { apiVersionOf, resourceNamed, resources } from '../apiserver/resource.ts'
import { type ControllerContext, keyOf, splitKey, type Workqueue } from './context.ts'

// Ownership of objects: controller references, adoption and release
// (pkg/controller/controller_ref_manager.go), and deletion without owners.

/** The owner that manages the object, if any. */
export function controllerOf(object: KubeObject): V1OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true)
}

/** True when `owner` manages `object`; a new owner of the same name has another uid. */
export function isControlledBy(object: KubeObject, owner: KubeObject): boolean {
  return controllerOf(object)?.uid === owner.metadata.uid
}

/** The reference that makes `owner` the controller of an object. */
export function controllerReference(owner: KubeObject): V1OwnerReference {
  return {
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  }
}

type Owner = KubeObject & { spec: { selector?: V1LabelSelector } }

/**
 * The objects that the owner controls: matching orphans are adopted, own ones that no longer match
 * are released.
 */
export function claim<T extends KubeObject>(api: Api, owner: Owner, resource: string): T[] {
  const { namespace, uid } = owner.metadata
  return api.list<T>(resource, { namespace }).flatMap((object) => {
    const { ownerReferences: references = [], labels, deletionTimestamp } = object.metadata
    const isOwn = isControlledBy(object, owner)
    const isOrphan = controllerOf(object) === undefined && deletionTimestamp === undefined
    if (matchesSelector(owner.spec.selector, labels)) {
      if (isOwn) return [object]
      return isOrphan
        ? [patchOwners(api, resource, object, [...references, controllerReference(owner)])]
        : []
    }
    const others = references.filter((reference) => reference.uid !== uid)
    if (isOwn) patchOwners(api, resource, object, others)
    return []
  })
}

function patchOwners<T extends KubeObject>(
  api: Api,
  resource: string,
  { metadata: { namespace, name } }: T,
  references: V1OwnerReference[],
): T {
  const ownerReferences = references.length > 0 ? references : null
  return api.patch<T>(resource, namespace, name, { metadata: { ownerReferences } })
}

/**
 * Queues the owner of each object of `resource` that changes: the one that controls or did control
 * it, or those that would adopt it.
 */
export function watchOwned(
  context: ControllerContext,
  queue: Workqueue,
  resource: string,
  owners: string,
): void {
  const { kind } = resourceNamed(owners)
  context.watch<KubeObject>(resource, (_type, object, previous) => {
    const { namespace } = object.metadata
    for (const state of previous ? [previous, object] : [object]) {
      const owner = controllerOf(state)
      if (owner?.kind === kind) queue.add(`${namespace}/${owner.name}`)
    }
    if (controllerOf(object)) return
    for (const owner of context.api.list<Owner>(owners, { namespace }))
      if (matchesSelector(owner.spec.selector, object.metadata.labels)) queue.add(keyOf(owner))
  })
}

// Events own nothing and have no owner.
const collected = resources.filter(({ name }) => name !== 'events')

/**
 * Deletes objects of which no owner exists any longer, as pkg/controller/garbagecollector does
 * (policy Background).
 */
export function startGarbageCollector(context: ControllerContext): void {
  const { api } = context
  /**
   * The uids of all owners. Of thousands of Services that are deleted in a row, the other objects
   * are searched only for these.
   */
  const owners = new Set<string>()

  const queue = context.queue((key) => {
    const [resource = '', place = ''] = key.split(' ')
    const { namespace, name } = splitKey(place)
    const object = api.get(resource, namespace, name)
    if (!object || object.metadata.deletionTimestamp) return
    const { ownerReferences: references = [] } = object.metadata
    const left = references.filter((reference) => ownerExists(reference, namespace))
    if (left.length === references.length) return
    if (left.length > 0) patchOwners(api, resource, object, left)
    else api.delete(resource, namespace, name)
  })

  for (const { name: resource } of collected)
    context.watch<KubeObject>(resource, (type, object) => {
      const { uid, ownerReferences = [] } = object.metadata
      if (type !== 'DELETED') {
        for (const reference of ownerReferences) owners.add(reference.uid)
        if (ownerReferences.length > 0) queue.add(`${resource} ${keyOf(object)}`)
        return
      }
      if (owners.delete(uid)) queueOwned(uid)
    })

  /** Queues each object that names this owner. */
  function queueOwned(uid: string): void {
    const isOwner = (reference: V1OwnerReference) => reference.uid === uid
    for (const { name } of collected)
      for (const other of api.store.all(name))
        if (other.metadata.ownerReferences?.some(isOwner)) queue.add(`${name} ${keyOf(other)}`)
  }

  /** False only for an owner of a kind that this API serves. */
  function ownerExists(
    { apiVersion, kind, name, uid }: V1OwnerReference,
    namespace: string | undefined,
  ): boolean {
    const resource = collected.find((own) => own.kind === kind && apiVersionOf(own) === apiVersion)
    return (
      !resource ||
      api.get(resource.name, resource.namespaced ? namespace : undefined, name)?.metadata.uid ===
        uid
    )
  }
}
