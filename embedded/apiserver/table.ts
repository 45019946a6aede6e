import type {
  CoreV1Event,
  V1ConfigMap,
  V1Deployment,
  V1EndpointSlice,
  V1Endpoints,
  V1Job,
  V1LabelSelector,
  V1Node,
  V1PodTemplateSpec,
  V1Service,
} from '@kubernetes/client-node'
import { ageColumn, ageOf, type Column, columns, field, humanDuration, nameColumn, wide } from './column.ts'
import { valueAt } from './json.ts'
import { podColumns } from './pod-columns.ts'
import type { Stored } from './store.ts'

function externalAddress(service: V1Service): string {
  const spec = service.spec ?? {}
  const own = spec.externalIPs ?? []
  if (spec.type === 'ExternalName') return spec.externalName ?? ''
  if (spec.type !== 'LoadBalancer') return own.join(',') || '<none>'
  const ingress = (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => ip || hostname || [])
  return [...ingress, ...own].join(',') || '<pending>'
}

function ports(service: V1Service): string {
  const shown = (service.spec?.ports ?? []).map(({ port, nodePort, protocol }) =>
    nodePort ? `${port}:${nodePort}/${protocol}` : `${port}/${protocol}`,
  )
  return shown.join(',') || '<none>'
}

/** Labels as kubectl writes them: `a=1,b=2`, or `<none>`. */
function labelsText(labels: Record<string, string> | undefined): string {
  const pairs = Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`)
  return pairs.sort().join(',') || '<none>'
}

interface Workload {
  spec?: { template?: V1PodTemplateSpec; selector: V1LabelSelector }
}

function templateText(workload: Workload, field: 'name' | 'image'): string {
  return (workload.spec?.template?.spec?.containers ?? []).map((container) => container[field] ?? '').join(',')
}

function selectorText(selector: V1LabelSelector | undefined): string {
  const expressions = (selector?.matchExpressions ?? []).map(({ key, operator, values }) => {
    if (operator === 'Exists') return key
    if (operator === 'DoesNotExist') return `!${key}`
    return `${key} ${operator === 'In' ? 'in' : 'notin'} (${[...(values ?? [])].sort().join(',')})`
  })
  const labels = Object.keys(selector?.matchLabels ?? {}).length > 0 ? [labelsText(selector?.matchLabels)] : []
  return [...labels, ...expressions].join(',') || '<none>'
}

function jobStatus({ status }: V1Job): string {
  const held = (status?.conditions ?? []).filter((condition) => condition.status === 'True').map(({ type }) => type)
  return ['Complete', 'Failed', 'Suspended'].find((type) => held.includes(type)) ?? 'Running'
}

// Times are strings in JSON, although client-node's types declare Date.
function jobDuration({ status }: V1Job, now: Date): string {
  if (!status?.startTime) return ''
  const ended = status.conditions?.find(({ type }) => type === 'Failed')?.lastTransitionTime
  const end = status.completionTime ?? ended ?? now
  return humanDuration((new Date(end).getTime() - new Date(status.startTime).getTime()) / 1000)
}

function lastSeen({ firstTimestamp, lastTimestamp, count = 1 }: CoreV1Event, now: Date): string {
  const [first, last] = [ageOf(firstTimestamp, now), ageOf(lastTimestamp ?? firstTimestamp, now)]
  return count > 1 ? `${last} (x${count} over ${first})` : last
}

function count(map: unknown): number {
  return Object.keys(map ?? {}).length
}

function nodeStatus(node: V1Node): string {
  const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready')
  const status = ready ? (ready.status === 'True' ? 'Ready' : 'NotReady') : 'Unknown'
  return node.spec?.unschedulable ? `${status},SchedulingDisabled` : status
}

function nodeRoles({ metadata }: V1Node): string {
  const roles = Object.keys(metadata?.labels ?? {}).flatMap(
    (key) => /^node-role\.kubernetes\.io\/(.+)$/.exec(key)?.[1] ?? [],
  )
  return roles.sort().join(',') || '<none>'
}

function nodeAddress(node: V1Node, type: string): string {
  return node.status?.addresses?.find((address) => address.type === type)?.address ?? '<none>'
}

function endpointsText(endpoints: V1Endpoints): string {
  const all = (endpoints.subsets ?? []).flatMap(({ addresses, ports }) => {
    if (!ports?.length) return (addresses ?? []).map((address) => address.ip)
    return ports.flatMap((port) => (addresses ?? []).map((address) => `${address.ip}:${port.port}`))
  })
  return firstThree(all) || '<none>'
}

function slicePorts(slice: V1EndpointSlice): string {
  const ports = (slice.ports ?? []).map((port) => (port.port === undefined ? '*' : String(port.port)))
  return firstThree(ports) || '<unset>'
}

function sliceAddresses(slice: V1EndpointSlice): string {
  return firstThree((slice.endpoints ?? []).flatMap((endpoint) => endpoint.addresses)) || '<unset>'
}

function firstThree(items: readonly string[]): string {
  const shown = items.slice(0, 3).join(',')
  return items.length > 3 ? `${shown} + ${items.length - 3} more...` : shown
}

const templateColumns: readonly Column<Workload>[] = wide(
  { name: 'Containers', cell: (workload) => templateText(workload, 'name') },
  { name: 'Images', cell: (workload) => templateText(workload, 'image') },
  { name: 'Selector', cell: (workload) => selectorText(workload.spec?.selector) },
)

/** The columns that kubectl prints for each resource. */
const byResource: Record<string, readonly Column[]> = {
  pods: podColumns,
  services: columns<V1Service>(
    nameColumn,
    field('Type', 'spec.type'),
    field('Cluster-IP', 'spec.clusterIP'),
    { name: 'External-IP', cell: externalAddress },
    { name: 'Port(s)', cell: ports },
    ageColumn,
    { name: 'Selector', wide: true, cell: (service) => labelsText(service.spec?.selector) },
  ),
  deployments: columns<V1Deployment>(
    nameColumn,
    { name: 'Ready', cell: ({ spec, status }) => `${status?.readyReplicas ?? 0}/${spec?.replicas ?? 0}` },
    field('Up-to-date', 'status.updatedReplicas', 0),
    field('Available', 'status.availableReplicas', 0),
    ageColumn,
    ...templateColumns,
  ),
  replicasets: columns(
    nameColumn,
    field('Desired', 'spec.replicas', 0),
    field('Current', 'status.replicas', 0),
    field('Ready', 'status.readyReplicas', 0),
    ageColumn,
    ...templateColumns,
  ),
  daemonsets: columns<Workload>(
    nameColumn,
    field('Desired', 'status.desiredNumberScheduled', 0),
    field('Current', 'status.currentNumberScheduled', 0),
    field('Ready', 'status.numberReady', 0),
    field('Up-to-date', 'status.updatedNumberScheduled', 0),
    field('Available', 'status.numberAvailable', 0),
    { name: 'Node Selector', cell: ({ spec }) => labelsText(spec?.template?.spec?.nodeSelector) },
    ageColumn,
    ...templateColumns,
  ),
  jobs: columns<V1Job>(
    nameColumn,
    { name: 'Status', cell: jobStatus },
    {
      name: 'Completions',
      cell: ({ spec, status }) => `${status?.succeeded ?? 0}/${spec?.completions ?? `1 of ${spec?.parallelism ?? 1}`}`,
    },
    { name: 'Duration', cell: jobDuration },
    ageColumn,
    ...(templateColumns as readonly Column<unknown>[]),
  ),
  cronjobs: columns(
    nameColumn,
    field('Schedule', 'spec.schedule'),
    field('Timezone', 'spec.timeZone'),
    { name: 'Suspend', cell: (cronJob) => (valueAt(cronJob, 'spec.suspend') ? 'True' : 'False') },
    { name: 'Active', type: 'integer', cell: (cronJob) => count(valueAt(cronJob, 'status.active')) },
    {
      name: 'Last Schedule',
      cell: (cronJob, now) => {
        const time = valueAt(cronJob, 'status.lastScheduleTime')
        return time ? ageOf(time, now) : '<none>'
      },
    },
    ageColumn,
  ),
  nodes: columns<V1Node>(
    nameColumn,
    { name: 'Status', cell: nodeStatus },
    { name: 'Roles', cell: nodeRoles },
    ageColumn,
    field('Version', 'status.nodeInfo.kubeletVersion'),
    ...wide(
      { name: 'Internal-IP', cell: (node: V1Node) => nodeAddress(node, 'InternalIP') },
      { name: 'External-IP', cell: (node: V1Node) => nodeAddress(node, 'ExternalIP') },
      field('OS-Image', 'status.nodeInfo.osImage', '<unknown>'),
      field('Kernel-Version', 'status.nodeInfo.kernelVersion', '<unknown>'),
      field('Container-Runtime', 'status.nodeInfo.containerRuntimeVersion', '<unknown>'),
    ),
  ),
  namespaces: columns(nameColumn, field('Status', 'status.phase'), ageColumn),
  endpoints: columns<V1Endpoints>(nameColumn, { name: 'Endpoints', cell: endpointsText }, ageColumn),
  endpointslices: columns<V1EndpointSlice>(
    nameColumn,
    field('AddressType', 'addressType'),
    { name: 'Ports', cell: slicePorts },
    { name: 'Endpoints', cell: sliceAddresses },
    ageColumn,
  ),
  configmaps: columns<V1ConfigMap>(
    nameColumn,
    { name: 'Data', cell: ({ data, binaryData }) => count(data) + count(binaryData) },
    ageColumn,
  ),
  secrets: columns(
    nameColumn,
    field('Type', 'type'),
    { name: 'Data', type: 'integer', cell: (secret) => count(valueAt(secret, 'data')) },
    ageColumn,
  ),
  serviceaccounts: columns(
    nameColumn,
    { name: 'Secrets', cell: (account) => count(valueAt(account, 'secrets')) },
    ageColumn,
  ),
  leases: columns(nameColumn, field('Holder', 'spec.holderIdentity', ''), ageColumn),
  events: columns<CoreV1Event>(
    { name: 'Last Seen', cell: lastSeen },
    field('Type', 'type', ''),
    field('Reason', 'reason', ''),
    {
      name: 'Object',
      cell: ({ involvedObject: { kind, name } }) => `${(kind ?? '').toLowerCase()}/${name ?? ''}`,
    },
    ...wide(field('Subobject', 'involvedObject.fieldPath', ''), {
      name: 'Source',
      cell: ({ source, reportingComponent }: CoreV1Event) =>
        [source?.component || reportingComponent, source?.host].filter(Boolean).join(', '),
    }),
    { name: 'Message', cell: (event) => (event.message ?? '').trim() },
    ...wide(
      { name: 'First Seen', cell: (event: CoreV1Event, now: Date) => ageOf(event.firstTimestamp, now) },
      field('Count', 'count', 1),
      nameColumn,
    ),
  ),
}

const plain = columns(nameColumn, ageColumn)

/** The content of a table's rows besides the cells: nothing, the metadata of the object, or the whole object. */
export type IncludeObject = 'None' | 'Metadata' | 'Object'

/** Objects as the table that kubectl prints; `headers: false` for all but the first event of a watch. */
export function tableOf(
  resource: string,
  objects: readonly Stored[],
  metadata: object,
  { include, now, headers = true }: { include: IncludeObject; now: Date; headers?: boolean },
): object {
  const own = byResource[resource] ?? plain
  const contents = {
    None: () => undefined,
    Metadata: ({ metadata }: Stored) => ({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata }),
    Object: (object: Stored) => object,
  }
  const columnDefinitions = own.map(({ name, type = 'string', wide }) => ({
    ...{ name, type, format: name === 'Name' ? 'name' : '', description: '', priority: wide ? 1 : 0 },
  }))
  const rows = objects.map((object) => ({
    cells: own.map((column) => column.cell(object, now)),
    object: contents[include](object),
  }))
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: headers ? columnDefinitions : [],
    rows,
  }
}
