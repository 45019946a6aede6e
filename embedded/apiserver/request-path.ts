import { older, type Served, served, type Unstored, unstored } from './served.ts'

/** What a path of the API names. */
export type Target =
  | { is: 'resource'; resource: Served; namespace?: string; name?: string; subresource?: string }
  | { is: 'unstored'; resource: Unstored; namespace?: string; name?: string }
  | { is: 'other'; path: string }
  | { is: 'unknown' }

/** Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`; everything else is `other`, a path with no resource `unknown`. */
export function parsePath(path: string): Target {
  const parts = path.split('/').filter((part) => part !== '')
  const [root, ...rest] = parts.map(decoded)
  const prefix = root === 'api' ? rest.splice(0, 1) : root === 'apis' ? rest.splice(0, 2) : []
  if (rest.length === 0 || prefix.length === 0) return { is: 'other', path }
  const group = root === 'api' ? '' : (prefix[0] ?? '')
  const version = prefix.at(-1) ?? ''
  const find = (name: string | undefined): Served | undefined =>
    [...served, ...older].find(
      (resource) => resource.name === name && resource.group === group && resource.version === version,
    )

  const inNamespace = rest[0] === 'namespaces' && rest.length > 2
  const [name, object] = inNamespace ? rest.slice(2) : rest
  // `kubectl autoscale` may use an older version.
  const other = unstored.find(
    (own) => own.name === name && own.group === group && (own.version === version || own.is === 'absent'),
  )
  if (other) {
    const [namespace] = inNamespace ? rest.slice(1) : []
    return { is: 'unstored', resource: other, ...(namespace && { namespace }), ...(object && { name: object }) }
  }
  // `/namespaces/NS/pods` is a list of Pods, `/namespaces/NS/status` belongs to the namespace itself.
  if (inNamespace) {
    const inside = find(rest[2])
    if (inside?.namespaced) return resourceTarget(inside, rest[1], rest.slice(3))
    if (group !== '') return { is: 'unknown' }
  }
  const resource = find(rest[0])
  return resource ? resourceTarget(resource, undefined, rest.slice(1)) : { is: 'unknown' }
}

function resourceTarget(resource: Served, namespace: string | undefined, rest: string[]): Target {
  const [name, subresource, ...more] = rest
  if (more.length > 0) return { is: 'unknown' }
  if (resource.namespaced && namespace === undefined && name !== undefined) return { is: 'unknown' }
  if (subresource !== undefined && !subresourcesOf(resource).includes(subresource)) return { is: 'unknown' }
  return {
    is: 'resource',
    resource,
    ...(namespace !== undefined && { namespace }),
    ...(name !== undefined && { name }),
    ...(subresource !== undefined && { subresource }),
  }
}

/** Subresources of a resource: `status`, `scale`, and what else it has. */
export function subresourcesOf(resource: Pick<Served, 'status' | 'scale' | 'others'>): string[] {
  return [...(resource.status ? ['status'] : []), ...(resource.scale ? ['scale'] : []), ...(resource.others ?? [])]
}

/** A malformed percent escape stays as it is; it then names nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
