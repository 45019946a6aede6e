import type { JsonObject } from './json.ts'
import { absentKind, unknownPath } from './status-error.ts'

/** A kind of the API, and its properties. */
export interface Resource {
  /** Plural, as in paths: `pods`. */
  name: string
  kind: string
  /**
   * `measured`: for each request, without stored objects. `reviewed`: what a client posts is
   * answered and not stored. `refused`: every request, by name.
   */
  served: 'stored' | 'measured' | 'reviewed' | 'refused'
  /** Empty for the core group. */
  group: string
  version: string
  shortNames: readonly string[]
  categories: readonly string[]
  namespaced: boolean
  /** Class name in @kubernetes/client-node that describes the fields, such as `V1Pod`. */
  schema: string
  /**
   * With `status`, writes to the main resource leave the object's status alone and the other way
   * round.
   */
  subresources: readonly string[]
  /** `metadata.generation` counts the changes of the specification. */
  generation: boolean
  /** The syntax of `metadata.name`. */
  nameRule: 'subdomain' | 'label' | 'service'
  /** Paths usable in field selectors besides metadata.name and metadata.namespace. */
  fields: readonly string[]
  /** An object in the form of a version that can only be read. */
  asRead?: (object: JsonObject) => JsonObject
}

function resource(
  group: string,
  kind: string,
  name: string,
  properties: Partial<Resource> = {},
): Resource {
  return {
    group,
    version: 'v1',
    kind,
    name,
    served: 'stored',
    namespaced: true,
    schema: `V1${kind}`,
    shortNames: [],
    categories: [],
    subresources: [],
    generation: false,
    nameRule: 'subdomain',
    fields: [],
    ...properties,
  }
}

const cluster = { namespaced: false }
const workload = { categories: ['all'], subresources: ['status'], generation: true }
const scalable = { ...workload, subresources: ['status', 'scale'] }

/** Every stored resource. */
export const resources: readonly Resource[] = [
  resource('', 'Namespace', 'namespaces', {
    ...cluster,
    shortNames: ['ns'],
    subresources: ['status'],
    nameRule: 'label',
    fields: ['status.phase'],
  }),
  resource('', 'Node', 'nodes', {
    ...cluster,
    shortNames: ['no'],
    subresources: ['status', 'exec', 'script', 'synced'],
    fields: ['spec.unschedulable'],
  }),
  resource('', 'Pod', 'pods', {
    ...workload,
    shortNames: ['po'],
    subresources: [
      'status',
      'log',
      'exec',
      'attach',
      'portforward',
      'eviction',
      'ephemeralcontainers',
    ],
    fields: [
      'spec.nodeName',
      'spec.restartPolicy',
      'spec.hostNetwork',
      'status.phase',
      'status.podIP',
    ],
  }),
  resource('', 'Service', 'services', {
    shortNames: ['svc'],
    categories: ['all'],
    subresources: ['status'],
    nameRule: 'service',
    fields: ['spec.clusterIP', 'spec.type'],
  }),
  resource('', 'Endpoints', 'endpoints', { shortNames: ['ep'] }),
  resource('', 'ConfigMap', 'configmaps', { shortNames: ['cm'] }),
  resource('', 'Secret', 'secrets', { fields: ['type'] }),
  resource('', 'ServiceAccount', 'serviceaccounts', { shortNames: ['sa'] }),
  resource('', 'Event', 'events', {
    shortNames: ['ev'],
    schema: 'CoreV1Event',
    fields: [
      ...['apiVersion', 'kind', 'namespace', 'name', 'uid', 'fieldPath'].map(
        (field) => `involvedObject.${field}`,
      ),
      'reason',
      'type',
    ],
  }),
  resource('apps', 'Deployment', 'deployments', { ...scalable, shortNames: ['deploy'] }),
  resource('apps', 'ReplicaSet', 'replicasets', { ...scalable, shortNames: ['rs'] }),
  resource('apps', 'DaemonSet', 'daemonsets', { ...workload, shortNames: ['ds'] }),
  resource('discovery.k8s.io', 'EndpointSlice', 'endpointslices', { generation: true }),
  resource('batch', 'Job', 'jobs', workload),
  resource('batch', 'CronJob', 'cronjobs', { ...workload, shortNames: ['cj'] }),
  resource('coordination.k8s.io', 'Lease', 'leases'),
]

/**
 * Versions for old clients, which discovery does not list: a genuine kube-proxy before 1.21 reads
 * EndpointSlices as v1beta1.
 */
const olderVersions: readonly Resource[] = [
  resource('discovery.k8s.io', 'EndpointSlice', 'endpointslices', {
    version: 'v1beta1',
    asRead: sliceV1beta1,
  }),
]

/**
 * An EndpointSlice as discovery.k8s.io/v1beta1 shows it: an endpoint's node is part of its
 * `topology` (KEP-752).
 */
function sliceV1beta1(slice: JsonObject): JsonObject {
  const endpoints = (slice.endpoints ?? []) as JsonObject[]
  return {
    ...slice,
    apiVersion: 'discovery.k8s.io/v1beta1',
    endpoints: endpoints.map((endpoint) => ({
      ...endpoint,
      ...(endpoint.nodeName !== undefined && {
        topology: { 'kubernetes.io/hostname': endpoint.nodeName },
      }),
    })),
  }
}

const byName = new Map(resources.map((resource) => [resource.name, resource]))

/** The resource of a plural name; throws for a name that this API doesn't serve. */
export function resourceNamed(name: string): Resource {
  const resource = byName.get(name)
  if (!resource)
    throw new Error(`this API has no resource "${name}"; it has ${[...byName.keys()].join(', ')}`)
  return resource
}

export function apiVersionOf(resource: Pick<Resource, 'group' | 'version'>): string {
  return resource.group ? `${resource.group}/${resource.version}` : resource.version
}

/** A kind of which every request is refused by name. */
function absent(
  apiVersion: string,
  kind: string,
  name: string,
  properties: Partial<Resource> = {},
): Resource {
  const [version = '', group = ''] = apiVersion.split('/').reverse()
  return resource(group, kind, name, { version, served: 'refused', ...properties })
}

const metrics = { version: 'v1beta1', served: 'measured' } as const
const reviewed = { served: 'reviewed', ...cluster } as const
const authorization = 'authorization.k8s.io'
const rbac = 'rbac.authorization.k8s.io/v1'

/** All kinds, in the order in which kubectl searches a name. */
export const discovered: readonly Resource[] = [
  ...resources,
  resource('authentication.k8s.io', 'SelfSubjectReview', 'selfsubjectreviews', reviewed),
  resource(authorization, 'SelfSubjectAccessReview', 'selfsubjectaccessreviews', reviewed),
  resource(authorization, 'SelfSubjectRulesReview', 'selfsubjectrulesreviews', reviewed),
  resource('metrics.k8s.io', 'NodeMetrics', 'nodes', { ...metrics, ...cluster }),
  resource('metrics.k8s.io', 'PodMetrics', 'pods', metrics),
  absent('v1', 'PersistentVolumeClaim', 'persistentvolumeclaims', { shortNames: ['pvc'] }),
  absent('v1', 'PersistentVolume', 'persistentvolumes', { shortNames: ['pv'], ...cluster }),
  absent('v1', 'ReplicationController', 'replicationcontrollers', { shortNames: ['rc'] }),
  absent('v1', 'ResourceQuota', 'resourcequotas', { shortNames: ['quota'] }),
  absent('v1', 'LimitRange', 'limitranges', { shortNames: ['limits'] }),
  absent('apps/v1', 'ControllerRevision', 'controllerrevisions'),
  absent('apps/v1', 'StatefulSet', 'statefulsets', { shortNames: ['sts'] }),
  absent('autoscaling/v2', 'HorizontalPodAutoscaler', 'horizontalpodautoscalers', {
    shortNames: ['hpa'],
  }),
  absent('networking.k8s.io/v1', 'Ingress', 'ingresses', { shortNames: ['ing'] }),
  absent('networking.k8s.io/v1', 'IngressClass', 'ingressclasses', cluster),
  absent('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies', { shortNames: ['netpol'] }),
  absent('policy/v1', 'PodDisruptionBudget', 'poddisruptionbudgets', { shortNames: ['pdb'] }),
  absent(rbac, 'Role', 'roles'),
  absent(rbac, 'RoleBinding', 'rolebindings'),
  absent(rbac, 'ClusterRole', 'clusterroles', cluster),
  absent(rbac, 'ClusterRoleBinding', 'clusterrolebindings', cluster),
  absent('storage.k8s.io/v1', 'StorageClass', 'storageclasses', { shortNames: ['sc'], ...cluster }),
  absent('apiextensions.k8s.io/v1', 'CustomResourceDefinition', 'customresourcedefinitions', {
    shortNames: ['crd'],
    ...cluster,
  }),
]

/**
 * Kinds of request bodies that are not stored; their fields are those of client-node's class
 * `V1KIND`.
 */
export const bodyKinds: readonly string[] = [
  'Scale',
  'DeleteOptions',
  'Eviction',
  'SelfSubjectReview',
  'SelfSubjectAccessReview',
  'SelfSubjectRulesReview',
]

/** A list, an object or a part of one. */
export interface ResourceTarget {
  is: 'resource'
  resource: Resource
  namespace: string | undefined
  name: string | undefined
  subresource: string | undefined
}

export type MetricsTarget = Pick<ResourceTarget, 'resource' | 'namespace' | 'name'> & {
  is: 'metrics'
}

/** A question about the user of the kubeconfig. */
export type ReviewTarget = Pick<ResourceTarget, 'resource'> & { is: 'review' }

/** The target of an API path. */
export type PathTarget = ResourceTarget | MetricsTarget | ReviewTarget | { is: 'document' }

/** Kinds and subresources of Kubernetes that are left out and have a substitute. */
const substituted = new Map([
  ['proxy', 'proxy to Pods, Services and nodes (`kubectl port-forward` reaches Pods and Services)'],
  ['token', 'tokens of ServiceAccounts (the token of the kubeconfig may do everything)'],
  ['controllerrevisions', 'history of DaemonSets (`kubectl apply` the earlier manifest)'],
])

/**
 * Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`; everything else is a `document`. Throws 404 for
 * what this API does not have.
 */
export function parsePath(path: string): PathTarget {
  const [root, ...rest] = path.split('/').filter(Boolean).map(decoded)
  const [group, version, ...place] = root === 'api' ? ['', ...rest] : rest
  if ((root !== 'api' && root !== 'apis') || place.length === 0) return { is: 'document' }
  // `/namespaces/NS/pods` is a list of Pods, `/namespaces/NS/status` belongs to the namespace
  // itself.
  const inNamespace =
    place[0] === 'namespaces' && (group !== '' || discovered.some(isNamed(group, place[2])))
  const [namespace, plural, name, subresource, ...more] = inNamespace
    ? place.slice(1)
    : [undefined, ...place]
  const resource = servedResource(group, version, plural)
  if (resource.served === 'reviewed' && name === undefined) return { is: 'review', resource }
  if (resource.served === 'measured') return { is: 'metrics', resource, namespace, name }
  const target: ResourceTarget = { is: 'resource', resource, namespace, name, subresource }
  requireSubresource(target)
  if (isWrongScope(target) || more.length > 0) throw unknownPath()
  return target
}

const isNamed = (group: string | undefined, plural: string | undefined) => (resource: Resource) =>
  resource.name === plural && resource.group === group

/** The resource of a path. Throws 404 if it is refused by name, or not of this API. */
function servedResource(
  group: string | undefined,
  version: string | undefined,
  plural: string | undefined,
): Resource {
  const versions = [...discovered, ...olderVersions].filter(isNamed(group, plural))
  const refused = versions.find(({ served }) => served === 'refused')
  // In any version: `kubectl autoscale` may use an older one.
  if (refused) throw absentKind(substituted.get(refused.name) ?? refused.kind)
  const resource = versions.find((own) => own.version === version)
  if (!resource) throw unknownPath()
  return resource
}

/** Throws 404 for a subresource that the resource does not have. */
function requireSubresource({ resource, subresource }: ResourceTarget): void {
  if (subresource === undefined) return
  const substitute = substituted.get(subresource)
  if (substitute !== undefined) throw absentKind(substitute)
  if (!resource.subresources.includes(subresource)) throw unknownPath()
}

/** A namespaced object without its namespace, or a namespace for a resource of the cluster. */
const isWrongScope = ({ resource, namespace, name }: ResourceTarget): boolean =>
  resource.namespaced ? namespace === undefined && name !== undefined : namespace !== undefined

/** A malformed percent escape stays as it is; it then names nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
