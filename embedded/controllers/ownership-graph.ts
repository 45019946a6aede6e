import type { KubeObject, OwnerReference } from '../apiserver/api.ts'
import { apiVersionOf, type Resource, resources } from '../apiserver/resource.ts'
import type { Change, ControllerContext } from './context.ts'

/** Where an object is found. */
export interface Place {
  resource: string
  namespace: string | undefined
  name: string
  uid: string
}

export interface OwnershipGraph {
  place(uid: string): Place | undefined
  /** The objects that name this one as an owner. */
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

/** The resource that an owner reference points into; undefined for kinds that this API does not serve. */
export function resourceOf({ apiVersion, kind }: OwnerReference): Resource | undefined {
  return watched.find((resource) => resource.kind === kind && apiVersionOf(resource) === apiVersion)
}
