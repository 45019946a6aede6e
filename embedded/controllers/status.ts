import type { Api, KubeObject } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'

/**
 * Writes `status` through the status subresource, onto the newest stored object; an equal one is not written again, so
 * that a controller's own updates do not trigger it endlessly. Returns the object as stored; undefined when it is gone.
 */
export function writeStatus<T extends KubeObject & { status?: unknown }>(
  api: Api,
  resource: string,
  object: T,
  status: T['status'],
): T | undefined {
  const { namespace, name, uid } = object.metadata
  const current = api.get<T>(resource, namespace, name)
  if (current?.metadata.uid !== uid) return undefined
  if (sameJson(current.status ?? {}, status ?? {})) return current
  return api.update<T>(resource, { ...structuredClone(current), status }, 'status')
}
