import type { KubeObject, ResourceName } from '../apiserver/api.ts'
import type { ControllerContext } from './context.ts'

export interface ObjectIndex<T> {
  /** The objects filed under a key, as of the last change that was delivered. */
  get(key: string): T[]
}

/**
 * Files the objects of a resource under a key of theirs (undefined: not at all). For the few questions that would
 * otherwise list a large resource at each reconcile.
 */
export function createIndex<T extends KubeObject>(
  context: ControllerContext,
  resource: ResourceName,
  keyOf: (object: T) => string | undefined,
): ObjectIndex<T> {
  const files = new Map<string, Map<string, T>>()
  function remove(object: T) {
    const key = keyOf(object)
    const file = key === undefined ? undefined : files.get(key)
    file?.delete(object.metadata.uid)
    if (key !== undefined && file?.size === 0) files.delete(key)
  }
  context.watch<T>(resource, ({ type, object, previous }) => {
    const key = keyOf(object)
    if (previous && (type === 'DELETED' || keyOf(previous) !== key)) remove(previous)
    if (type === 'DELETED') remove(object)
    else if (key !== undefined) {
      const file = files.get(key)
      if (file) file.set(object.metadata.uid, object)
      else files.set(key, new Map([[object.metadata.uid, object]]))
    }
  })
  return { get: (key) => [...(files.get(key)?.values() ?? [])] }
}
