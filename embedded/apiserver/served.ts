import type { JsonObject } from './json.ts'
import { apiVersionOf, type Resource, resources } from './resource.ts'
import type { Stored } from './store.ts'

/** A resource as one API group serves it; Events are served by two groups from one store. */
export interface Served extends Resource {
  /** The resource's name in the store. */
  stored: string
}

const own: Served[] = resources.map((resource) => ({ ...resource, stored: resource.name }))

const events: Served[] = own
  .filter((resource) => resource.name === 'events')
  .map((resource) => ({
    ...resource,
    group: 'events.k8s.io',
    schema: 'EventsV1Event',
    fields: (resource.fields ?? []).map((field) => field.replace('involvedObject.', 'regarding.')),
  }))

/** Everything that has objects, over all groups. */
export const served: readonly Served[] = [...own, ...events]

/** Versions that only old programs request: they can be read, but are not listed in discovery. */
const older: readonly Served[] = own
  .filter((resource) => resource.name === 'endpointslices')
  .map((resource) => ({ ...resource, version: 'v1beta1' }))

/** A kind in discovery without stored objects. */
export interface Unstored extends Pick<Resource, 'name' | 'kind' | 'group' | 'version' | 'singular' | 'namespaced'> {
  /** `review`: answers a POST. `metrics`: measured for each request. `absent`: every request is refused by name. */
  is: 'review' | 'metrics' | 'absent'
  shortNames?: readonly string[]
  verbs: readonly string[]
}

const unstoredOf =
  (is: Unstored['is'], verbs: readonly string[]) =>
  (group: string, version: string, kind: string, name: string, options: Partial<Unstored> = {}): Unstored => ({
    ...{ is, verbs, group, version, kind, name, singular: kind.toLowerCase(), namespaced: true, ...options },
  })
const review = unstoredOf('review', ['create'])
const metrics = unstoredOf('metrics', ['get', 'list'])
const absent = unstoredOf('absent', ['create', 'delete', 'get', 'list', 'patch'])
const cluster = { namespaced: false }

/** Kinds that are discovered but not stored. */
export const unstored: readonly Unstored[] = [
  review('authorization.k8s.io', 'v1', 'SelfSubjectAccessReview', 'selfsubjectaccessreviews', cluster),
  review('authorization.k8s.io', 'v1', 'SelfSubjectRulesReview', 'selfsubjectrulesreviews', cluster),
  review('authentication.k8s.io', 'v1', 'SelfSubjectReview', 'selfsubjectreviews', cluster),
  metrics('metrics.k8s.io', 'v1beta1', 'NodeMetrics', 'nodes', { ...cluster, singular: '' }),
  metrics('metrics.k8s.io', 'v1beta1', 'PodMetrics', 'pods', { singular: '' }),
  absent('', 'v1', 'PersistentVolumeClaim', 'persistentvolumeclaims', { shortNames: ['pvc'] }),
  absent('', 'v1', 'PersistentVolume', 'persistentvolumes', { ...cluster, shortNames: ['pv'] }),
  absent('', 'v1', 'ReplicationController', 'replicationcontrollers', { shortNames: ['rc'] }),
  absent('', 'v1', 'ResourceQuota', 'resourcequotas', { shortNames: ['quota'] }),
  absent('', 'v1', 'LimitRange', 'limitranges', { shortNames: ['limits'] }),
  absent('apps', 'v1', 'StatefulSet', 'statefulsets', { shortNames: ['sts'] }),
  absent('autoscaling', 'v2', 'HorizontalPodAutoscaler', 'horizontalpodautoscalers', { shortNames: ['hpa'] }),
  absent('networking.k8s.io', 'v1', 'Ingress', 'ingresses', { shortNames: ['ing'] }),
  absent('networking.k8s.io', 'v1', 'IngressClass', 'ingressclasses', cluster),
  absent('networking.k8s.io', 'v1', 'NetworkPolicy', 'networkpolicies', { shortNames: ['netpol'] }),
  absent('policy', 'v1', 'PodDisruptionBudget', 'poddisruptionbudgets', { shortNames: ['pdb'] }),
  absent('rbac.authorization.k8s.io', 'v1', 'Role', 'roles'),
  absent('rbac.authorization.k8s.io', 'v1', 'RoleBinding', 'rolebindings'),
  absent('rbac.authorization.k8s.io', 'v1', 'ClusterRole', 'clusterroles', cluster),
  absent('rbac.authorization.k8s.io', 'v1', 'ClusterRoleBinding', 'clusterrolebindings', cluster),
  absent('storage.k8s.io', 'v1', 'StorageClass', 'storageclasses', { ...cluster, shortNames: ['sc'] }),
  absent('apiextensions.k8s.io', 'v1', 'CustomResourceDefinition', 'customresourcedefinitions', {
    ...cluster,
    shortNames: ['crd'],
  }),
]

/** A stored object in the form of the API group. */
export function present(resource: Served, object: Stored): JsonObject {
  // Stored objects are JSON; KubeObject has no index signature.
  const json = object as unknown as JsonObject
  if (resource.version === 'v1beta1') return toSliceV1beta1(json)
  return resource.group === 'events.k8s.io' ? toEventsV1(json) : json
}

/** A client's object in the form of the store. */
export function absorb(resource: Served, object: JsonObject): Stored {
  const json = resource.group === 'events.k8s.io' ? toCoreV1(object) : object
  return { ...json, kind: resource.kind } as unknown as Stored
}

/** Groups with their one version, core first. */
export function groups(): { group: string; version: string }[] {
  const found = new Map<string, string>()
  for (const { group, version } of [...served, ...unstored]) found.set(group, version)
  return [...found].map(([group, version]) => ({ group, version }))
}

export function inGroup<T extends Pick<Resource, 'group' | 'version'>>(list: readonly T[], apiVersion: string): T[] {
  return list.filter((resource) => apiVersionOf(resource) === apiVersion)
}

// Kinds of request bodies that are not resources.
const bodyKinds: Readonly<Record<string, string>> = {
  Scale: 'V1Scale',
  DeleteOptions: 'V1DeleteOptions',
  Binding: 'V1Binding',
  Eviction: 'V1Eviction',
  SelfSubjectAccessReview: 'V1SelfSubjectAccessReview',
  SelfSubjectRulesReview: 'V1SelfSubjectRulesReview',
  SelfSubjectReview: 'V1SelfSubjectReview',
}

/** The class that describes a kind that clients may send, or undefined. */
export function classOfKind(apiVersion: string, kind: string): string | undefined {
  const own = inGroup(served, apiVersion).find((resource) => resource.kind === kind)
  return own?.schema ?? bodyKinds[kind]
}

// Events are kept as core/v1; events.k8s.io/v1 is another view of the same objects. The pairs name a field in both.
const names: readonly [core: string, events: string][] = [
  ['involvedObject', 'regarding'],
  ['message', 'note'],
  ['reportingComponent', 'reportingController'],
  ['count', 'deprecatedCount'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['source', 'deprecatedSource'],
]

/** A core/v1 Event as events.k8s.io/v1. */
function toEventsV1(event: JsonObject): JsonObject {
  return { ...renamed(event, new Map(names)), apiVersion: 'events.k8s.io/v1' }
}

/** An events.k8s.io/v1 Event as core/v1. */
function toCoreV1(event: JsonObject): JsonObject {
  return { ...renamed(event, new Map(names.map(([core, other]) => [other, core]))), apiVersion: 'v1' }
}

function renamed(event: JsonObject, to: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(Object.entries(event).map(([key, value]) => [to.get(key) ?? key, value]))
}

const hostname = 'kubernetes.io/hostname'

/**
 * A discovery.k8s.io/v1 EndpointSlice as v1beta1 shows it, where an endpoint's node is part of its `topology`
 * (KEP-752). A genuine kube-proxy before 1.21 knows no other version.
 */
export function toSliceV1beta1(slice: JsonObject): JsonObject {
  const endpoints = Array.isArray(slice.endpoints) ? (slice.endpoints as JsonObject[]) : []
  return {
    ...slice,
    apiVersion: 'discovery.k8s.io/v1beta1',
    endpoints: endpoints.map((endpoint) =>
      typeof endpoint.nodeName === 'string' ? { ...endpoint, topology: { [hostname]: endpoint.nodeName } } : endpoint,
    ),
  }
}

/** The target of an API path. */
export type Target =
  | { is: 'resource'; resource: Served; namespace?: string; name?: string; subresource?: string }
  | { is: 'unstored'; resource: Unstored; namespace?: string; name?: string }
  | { is: 'other'; path: string }
  | { is: 'absent'; what: string }
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

/** Subresources of Kubernetes that are left out, and what serves instead. */
const absentSubresources = new Map([
  ['proxy', 'proxy to Pods, Services and nodes (`kubectl port-forward` reaches Pods and Services)'],
  ['token', 'tokens of ServiceAccounts (the token of the kubeconfig may do everything)'],
])

function resourceTarget(resource: Served, namespace: string | undefined, rest: string[]): Target {
  const [name, subresource = '', ...more] = rest
  const what = absentSubresources.get(subresource)
  if (what !== undefined) return { is: 'absent', what }
  if (more.length > 0) return { is: 'unknown' }
  if (resource.namespaced && namespace === undefined && name !== undefined) return { is: 'unknown' }
  if (subresource !== '' && !subresourcesOf(resource).includes(subresource)) return { is: 'unknown' }
  return {
    is: 'resource',
    resource,
    ...(namespace !== undefined && { namespace }),
    ...(name !== undefined && { name }),
    ...(subresource && { subresource }),
  }
}

/** The subresources of a resource: `status`, `scale` and others. */
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
