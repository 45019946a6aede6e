import { olderVersions, type Resource, resources, type Unstored, unstored } from './resource.ts'

/** The target of an API path. */
export type Target =
  | { is: 'resource'; resource: Resource; namespace?: string; name?: string; subresource?: string }
  | { is: 'unstored'; resource: Unstored; namespace?: string; name?: string }
  | { is: 'document'; path: string }
  | { is: 'absent'; what: string }
  | { is: 'unknown' }

/** Subresources of Kubernetes that are left out, and what serves instead. */
const absentSubresources = new Map([
  ['proxy', 'proxy to Pods, Services and nodes (`kubectl port-forward` reaches Pods and Services)'],
  ['token', 'tokens of ServiceAccounts (the token of the kubeconfig may do everything)'],
])

/** Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`; everything else is a `document`, a path with no resource `unknown`. */
export function parsePath(path: string): Target {
  const parts = path.split('/').filter((part) => part !== '')
  const [root, ...rest] = parts.map(decoded)
  const prefix = root === 'api' ? rest.splice(0, 1) : root === 'apis' ? rest.splice(0, 2) : []
  if (rest.length === 0 || prefix.length === 0) return { is: 'document', path }
  const group = root === 'api' ? '' : prefix[0]
  const version = prefix.at(-1)
  // `/namespaces/NS/pods` is a list of Pods, `/namespaces/NS/status` belongs to the namespace itself.
  const named = ({ name, group: own }: Resource | Unstored) => name === rest[2] && own === group
  const inNamespace = rest[0] === 'namespaces' && (group !== '' || [...resources, ...unstored].some(named))
  const [namespace, plural, ...inside] = inNamespace ? rest.slice(1) : [undefined, ...rest]
  const place = { ...(namespace !== undefined && { namespace }), ...(inside[0] !== undefined && { name: inside[0] }) }
  const found = <T extends Resource | Unstored>(list: readonly T[], anyVersion = false) =>
    list.find((own) => own.name === plural && own.group === group && (anyVersion || own.version === version))
  // `kubectl autoscale` may use an older version of a kind that is absent.
  const other = found(unstored, true)
  if (other && (other.is === 'absent' || other.version === version))
    return { is: 'unstored', resource: other, ...place }
  const resource = found(resources) ?? found(olderVersions)
  if (!resource) return { is: 'unknown' }
  const [name, subresource = '', ...more] = inside
  const what = absentSubresources.get(subresource)
  if (what !== undefined) return { is: 'absent', what }
  const wrongScope = resource.namespaced ? namespace === undefined && name !== undefined : namespace !== undefined
  const isKnown = subresource === '' || resource.subresources.includes(subresource)
  if (wrongScope || more.length > 0 || !isKnown) return { is: 'unknown' }
  return { is: 'resource', resource, ...place, ...(subresource && { subresource }) }
}

/** A malformed percent escape stays as it is; it then names nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
