import type { V1LabelSelector } from '@kubernetes/client-node'
import { type Labels, matchesSelector } from '../../dataplane/label-selector.ts'
import type { Api, KubeObject, OwnerReference } from '../apiserver/api.ts'
import { apiVersionOf, type Resource, resources } from '../apiserver/resource.ts'
import type { Change, ControllerContext } from './context.ts'

// Ownership of objects: controller references, adoption and release (pkg/controller/controller_ref_manager.go).

/** The owner that manages the object, if any. */
export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true)
}

/** True when `owner` manages `object`; a new owner of the same name has another uid. */
export function isControlledBy(object: KubeObject, owner: KubeObject): boolean {
  return controllerOf(object)?.uid === owner.metadata.uid
}

/** The reference that makes `owner` the controller of an object. */
export function controllerReference(owner: KubeObject): OwnerReference {
  return {
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  }
}

/** List options for the namespace of an object. */
export function inNamespaceOf({ metadata: { namespace } }: KubeObject): { namespace?: string } {
  return namespace === undefined ? {} : { namespace }
}

type Owner = KubeObject & { spec: { selector?: V1LabelSelector } }

/**
 * The objects of `resource` in the owner's namespace that the owner controls after this call: orphans that match its
 * selector are adopted, own objects that no longer match are released. An owner being deleted does neither. Objects
 * that are not `considered` are not changed.
 */
export function claim<T extends KubeObject>(
  api: Api,
  owner: Owner,
  resource: string,
  considered: (object: T) => boolean = () => true,
): T[] {
  const claimed: T[] = []
  for (const object of api.list<T>(resource, inNamespaceOf(owner))) {
    if (!considered(object)) continue
    const controller = controllerOf(object)
    const matches = wouldClaim(owner, object.metadata.labels)
    if (controller) {
      if (controller.uid !== owner.metadata.uid) continue
      if (matches) claimed.push(object)
      else if (!owner.metadata.deletionTimestamp) release(api, owner, resource, object)
    } else if (matches && !owner.metadata.deletionTimestamp && !object.metadata.deletionTimestamp) {
      claimed.push(adopt(api, owner, resource, object))
    }
  }
  return claimed
}

function adopt<T extends KubeObject>(api: Api, owner: KubeObject, resource: string, object: T): T {
  const ownerReferences = [...(object.metadata.ownerReferences ?? []), controllerReference(owner)]
  return patchOwners(api, resource, object, ownerReferences)
}

function release<T extends KubeObject>(api: Api, owner: KubeObject, resource: string, object: T): void {
  const others = (object.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== owner.metadata.uid)
  patchOwners(api, resource, object, others)
}

/** Replaces the owner references; the uid in the patch makes it fail for another object of the same name. */
export function patchOwners<T extends KubeObject>(
  api: Api,
  resource: string,
  { metadata: { namespace, name, uid } }: T,
  ownerReferences: OwnerReference[],
): T {
  const references = ownerReferences.length > 0 ? ownerReferences : null
  return api.patch<T>(resource, namespace, name, { metadata: { uid, ownerReferences: references } })
}

/** Whether an owner would adopt an orphan with these labels. */
export function wouldClaim(owner: Owner, labels: Labels | undefined): boolean {
  return matchesSelector(owner.spec.selector, labels)
}

/** The resource, namespace and name of an object. */
export interface Place {
  resource: string
  namespace: string | undefined
  name: string
  uid: string
}

export interface OwnershipGraph {
  place(uid: string): Place | undefined
  /** The objects that have this one as an owner. */
  dependents(uid: string): Place[]
}

// Events own nothing and have no owner; there are too many of them to index.
const watched = resources.filter(({ name }) => name !== 'events')

/** Tracks owner references of all kinds; `changed` is called after each update of the graph. */
export function createOwnershipGraph(
  context: ControllerContext,
  changed: (place: Place, change: Change<KubeObject>) => void,
): OwnershipGraph {
  const places = new Map<string, Place>()
  const dependents = new Map<string, Map<string, Place>>()

  function forget(object: KubeObject) {
    for (const owner of object.metadata.ownerReferences ?? []) {
      const others = dependents.get(owner.uid)
      others?.delete(object.metadata.uid)
      if (others?.size === 0) dependents.delete(owner.uid)
    }
    places.delete(object.metadata.uid)
  }

  function remember(object: KubeObject, place: Place) {
    places.set(place.uid, place)
    for (const owner of object.metadata.ownerReferences ?? []) {
      const others = dependents.get(owner.uid)
      if (others) others.set(place.uid, place)
      else dependents.set(owner.uid, new Map([[place.uid, place]]))
    }
  }

  for (const { name: resource } of watched) {
    context.watch<KubeObject>(resource, (change) => {
      const { type, object, previous } = change
      const { namespace, name, uid } = object.metadata
      const place = { resource, namespace, name, uid }
      if (previous) forget(previous)
      if (type === 'DELETED') forget(object)
      else remember(object, place)
      changed(place, change)
    })
  }
  return { place: (uid) => places.get(uid), dependents: (uid) => [...(dependents.get(uid)?.values() ?? [])] }
}

/** The resource of an owner reference; undefined for kinds that this API does not serve. */
export function resourceOf({ apiVersion, kind }: OwnerReference): Resource | undefined {
  return watched.find((resource) => resource.kind === kind && apiVersionOf(resource) === apiVersion)
}
