import type { V1LabelSelector } from '@kubernetes/client-node'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import type { Api, KubeObject, OwnerReference } from '../apiserver/api.ts'
import { resourceNamed } from '../apiserver/resource.ts'
import { type ControllerContext, keyOf, type Workqueue } from './context.ts'

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
 * selector are adopted, own objects that no longer match are released. An owner being deleted does neither.
 */
export function claim<T extends KubeObject>(api: Api, owner: Owner, resource: string): T[] {
  const claimed: T[] = []
  for (const object of api.list<T>(resource, inNamespaceOf(owner))) {
    const { ownerReferences: references = [] } = object.metadata
    const controller = controllerOf(object)
    const matches = matchesSelector(owner.spec.selector, object.metadata.labels)
    if (controller) {
      if (controller.uid !== owner.metadata.uid) continue
      if (matches) claimed.push(object)
      else if (!owner.metadata.deletionTimestamp) {
        const others = references.filter(({ uid }) => uid !== owner.metadata.uid)
        patchOwners(api, resource, object, others)
      }
    } else if (matches && !owner.metadata.deletionTimestamp && !object.metadata.deletionTimestamp) {
      claimed.push(patchOwners(api, resource, object, [...references, controllerReference(owner)]))
    }
  }
  return claimed
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

/**
 * Queues the owner of each object of `resource` that changes, among the objects of `owners`: the one that controls it or did
 * so, or those that would adopt it.
 */
export function watchOwned(context: ControllerContext, queue: Workqueue, resource: string, owners: string): void {
  const { kind } = resourceNamed(owners)
  context.watch<KubeObject>(resource, ({ object, previous }) => {
    for (const state of previous ? [previous, object] : [object]) {
      const owner = controllerOf(state)
      if (owner?.kind === kind) queue.add(`${state.metadata.namespace}/${owner.name}`)
    }
    if (controllerOf(object)) return
    for (const owner of context.api.list<Owner>(owners, inNamespaceOf(object)))
      if (matchesSelector(owner.spec.selector, object.metadata.labels)) queue.add(keyOf(owner))
  })
}
