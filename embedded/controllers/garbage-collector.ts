import type { KubeObject, OwnerReference } from '../apiserver/api.ts'
import { apiVersionOf, resources } from '../apiserver/resource.ts'
import { type ControllerContext, createIndex, keyOf, remove, splitKey } from './context.ts'
import { patchOwners } from './ownership.ts'

// Events own nothing and have no owner; there are too many of them to index.
const collected = resources.filter(({ name }) => name !== 'events')

/** Deletes objects of which no owner exists any longer, as pkg/controller/garbagecollector does (policy Background). */
export function startGarbageCollector(context: ControllerContext): void {
  const { api } = context
  const ownerUids = ({ metadata }: KubeObject) => (metadata.ownerReferences ?? []).map(({ uid }) => uid)
  const indexes = collected.map(({ name }) => ({ resource: name, find: createIndex(context, name, ownerUids) }))

  const queue = context.queue((key) => {
    const [resource = '', place = ''] = key.split(' ')
    const { namespace, name } = splitKey(place)
    const object = api.get(resource, namespace, name)
    if (!object || object.metadata.deletionTimestamp) return
    const { ownerReferences: references = [] } = object.metadata
    const left = references.filter((reference) => ownerExists(reference, namespace))
    if (left.length === references.length) return
    if (left.length > 0) patchOwners(api, resource, object, left)
    else remove(api, resource, object.metadata)
  })

  for (const { resource } of indexes)
    context.watch<KubeObject>(resource, ({ type, object }) => {
      if (type !== 'DELETED') {
        if (object.metadata.ownerReferences) queue.add(`${resource} ${keyOf(object)}`)
        return
      }
      for (const other of indexes)
        for (const dependent of other.find(object.metadata.uid)) queue.add(`${other.resource} ${keyOf(dependent)}`)
    })

  /** False only for an owner of a kind that this API serves. */
  function ownerExists({ apiVersion, kind, name, uid }: OwnerReference, namespace: string | undefined): boolean {
    const resource = collected.find((own) => own.kind === kind && apiVersionOf(own) === apiVersion)
    return !resource || api.get(resource.name, resource.namespaced ? namespace : undefined, name)?.metadata.uid === uid
  }
}
