/** A kind that the API serves, and its properties. */
export interface Resource {
  /** Plural, as in paths: `pods`. */
  name: string
  kind: string
  /** Empty for the core group. */
  group: string
  version: string
  singular: string
  shortNames?: readonly string[]
  categories?: readonly string[]
  namespaced: boolean
  /** Class name in @kubernetes/client-node that describes the fields, such as `V1Pod`. */
  schema: string
  /** A status subresource exists: writes to the main resource leave `status` alone and the other way round. */
  status?: boolean
  /** A scale subresource exists. */
  scale?: boolean
  /** Subresources that are not part of the object. */
  others?: readonly string[]
  /** `metadata.generation` counts the changes of the specification. */
  generation?: boolean
  /** The syntax of `metadata.name`; default: RFC 1123 subdomain. */
  nameRule?: 'subdomain' | 'label' | 'service'
  /** Paths usable in field selectors besides metadata.name and metadata.namespace. */
  fields?: readonly string[]
}

const all = ['all']

/** Every stored resource by its plural name. */
export const resources: readonly Resource[] = [
  {
    name: 'namespaces',
    kind: 'Namespace',
    group: '',
    version: 'v1',
    singular: 'namespace',
    shortNames: ['ns'],
    namespaced: false,
    schema: 'V1Namespace',
    status: true,
    others: ['finalize'],
    nameRule: 'label',
    fields: ['status.phase'],
  },
  {
    name: 'nodes',
    kind: 'Node',
    group: '',
    version: 'v1',
    singular: 'node',
    shortNames: ['no'],
    namespaced: false,
    schema: 'V1Node',
    status: true,
    others: ['exec', 'script', 'synced'],
    fields: ['spec.unschedulable'],
  },
  {
    name: 'pods',
    kind: 'Pod',
    group: '',
    version: 'v1',
    singular: 'pod',
    shortNames: ['po'],
    categories: all,
    namespaced: true,
    schema: 'V1Pod',
    status: true,
    others: ['log', 'exec', 'attach', 'portforward', 'binding', 'eviction', 'ephemeralcontainers'],
    generation: true,
    fields: [
      'spec.nodeName',
      'spec.restartPolicy',
      'spec.schedulerName',
      'spec.serviceAccountName',
      'spec.hostNetwork',
      'status.phase',
      'status.podIP',
      'status.nominatedNodeName',
    ],
  },
  {
    name: 'services',
    kind: 'Service',
    group: '',
    version: 'v1',
    singular: 'service',
    shortNames: ['svc'],
    categories: all,
    namespaced: true,
    schema: 'V1Service',
    status: true,
    nameRule: 'service',
    fields: ['spec.clusterIP', 'spec.type'],
  },
  {
    name: 'endpoints',
    kind: 'Endpoints',
    group: '',
    version: 'v1',
    singular: 'endpoints',
    shortNames: ['ep'],
    namespaced: true,
    schema: 'V1Endpoints',
  },
  {
    name: 'configmaps',
    kind: 'ConfigMap',
    group: '',
    version: 'v1',
    singular: 'configmap',
    shortNames: ['cm'],
    namespaced: true,
    schema: 'V1ConfigMap',
  },
  {
    name: 'secrets',
    kind: 'Secret',
    group: '',
    version: 'v1',
    singular: 'secret',
    namespaced: true,
    schema: 'V1Secret',
    fields: ['type'],
  },
  {
    name: 'serviceaccounts',
    kind: 'ServiceAccount',
    group: '',
    version: 'v1',
    singular: 'serviceaccount',
    shortNames: ['sa'],
    namespaced: true,
    schema: 'V1ServiceAccount',
  },
  {
    name: 'events',
    kind: 'Event',
    group: '',
    version: 'v1',
    singular: 'event',
    shortNames: ['ev'],
    namespaced: true,
    schema: 'CoreV1Event',
    fields: [
      'involvedObject.kind',
      'involvedObject.namespace',
      'involvedObject.name',
      'involvedObject.uid',
      'involvedObject.apiVersion',
      'involvedObject.resourceVersion',
      'involvedObject.fieldPath',
      'reason',
      'reportingComponent',
      'source',
      'type',
    ],
  },
  {
    name: 'deployments',
    kind: 'Deployment',
    group: 'apps',
    version: 'v1',
    singular: 'deployment',
    shortNames: ['deploy'],
    categories: all,
    namespaced: true,
    schema: 'V1Deployment',
    status: true,
    scale: true,
    generation: true,
  },
  {
    name: 'replicasets',
    kind: 'ReplicaSet',
    group: 'apps',
    version: 'v1',
    singular: 'replicaset',
    shortNames: ['rs'],
    categories: all,
    namespaced: true,
    schema: 'V1ReplicaSet',
    status: true,
    scale: true,
    generation: true,
    fields: ['status.replicas'],
  },
  {
    name: 'daemonsets',
    kind: 'DaemonSet',
    group: 'apps',
    version: 'v1',
    singular: 'daemonset',
    shortNames: ['ds'],
    categories: all,
    namespaced: true,
    schema: 'V1DaemonSet',
    status: true,
    generation: true,
  },
  {
    name: 'controllerrevisions',
    kind: 'ControllerRevision',
    group: 'apps',
    version: 'v1',
    singular: 'controllerrevision',
    namespaced: true,
    schema: 'V1ControllerRevision',
  },
  {
    name: 'endpointslices',
    kind: 'EndpointSlice',
    group: 'discovery.k8s.io',
    version: 'v1',
    singular: 'endpointslice',
    namespaced: true,
    schema: 'V1EndpointSlice',
    generation: true,
  },
  {
    name: 'jobs',
    kind: 'Job',
    group: 'batch',
    version: 'v1',
    singular: 'job',
    categories: all,
    namespaced: true,
    schema: 'V1Job',
    status: true,
    generation: true,
  },
  {
    name: 'cronjobs',
    kind: 'CronJob',
    group: 'batch',
    version: 'v1',
    singular: 'cronjob',
    shortNames: ['cj'],
    categories: all,
    namespaced: true,
    schema: 'V1CronJob',
    status: true,
    generation: true,
  },
  {
    name: 'leases',
    kind: 'Lease',
    group: 'coordination.k8s.io',
    version: 'v1',
    singular: 'lease',
    namespaced: true,
    schema: 'V1Lease',
  },
]

const byName = new Map(resources.map((resource) => [resource.name, resource]))

/** The resource of a plural name; throws for a name that this API doesn't serve. */
export function resourceNamed(name: string): Resource {
  const resource = byName.get(name)
  if (!resource) throw new Error(`this API has no resource "${name}"; it has ${[...byName.keys()].join(', ')}`)
  return resource
}

export function apiVersionOf(resource: Pick<Resource, 'group' | 'version'>): string {
  return resource.group ? `${resource.group}/${resource.version}` : resource.version
}
