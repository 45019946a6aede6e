import type {
  CoreV1Event,
  V1ConfigMap,
  V1ContainerStatus,
  V1ControllerRevision,
  V1Deployment,
  V1EndpointSlice,
  V1Endpoints,
  V1Job,
  V1LabelSelector,
  V1Node,
  V1Pod,
  V1PodTemplateSpec,
  V1Service,
} from '@kubernetes/client-node'
import { valueAt } from './json.ts'
import type { Stored } from './store.ts'

export interface Column<T = Stored> {
  name: string
  /** Default: `string`. */
  type?: 'string' | 'integer'
  /** Shown only by `-o wide`. */
  wide?: boolean
  cell(object: T, now: Date): string | number
}

/** Columns of the JSON form of a kind, in which dates are text. */
function columns<T>(...own: readonly Column<T>[]): readonly Column[] {
  return own as readonly Column<unknown>[] as readonly Column[]
}

/** A column with the value at a path of the object, or a substitute for an absent or empty one. */
function field(name: string, path: string, absent: string | number = '<none>'): Column<unknown> {
  const cell = (object: unknown) => (valueAt(object, path) as string | number | undefined) || absent
  return { name, cell, ...(typeof absent === 'number' && { type: 'integer' }) }
}

function wide<T>(...own: readonly Column<T>[]): Column<T>[] {
  return own.map((column) => ({ ...column, wide: true }))
}

const nameColumn = field('Name', 'metadata.name')
const ageColumn: Column<unknown> = {
  name: 'Age',
  cell: (object, now) => ageOf(valueAt(object, 'metadata.creationTimestamp'), now),
}

/** How long ago a time was, as kubectl's AGE column prints it. */
function ageOf(time: unknown, now: Date): string {
  return typeof time === 'string' ? humanDuration((now.getTime() - Date.parse(time)) / 1000) : '<unknown>'
}

/** A duration as kubectl prints it: `5s`, `3m12s`, `7h5m`, `2d`, `1y30d`. */
function humanDuration(exactSeconds: number): string {
  const seconds = Math.trunc(exactSeconds)
  if (seconds < -1) return '<invalid>'
  if (seconds < 0) return '0s'
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's')
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm')
  if (hours < 48) return `${hours}h`
  const days = Math.floor(hours / 24)
  if (days < 8) return pair(days, 'd', hours % 24, 'h')
  if (days < 730) return `${days}d`
  const years = Math.floor(days / 365)
  return years < 8 ? pair(years, 'y', days % 365, 'd') : `${years}y`
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`
}

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

/** The STATUS column: the reason why a Pod does not run, else its phase. */
function statusText(pod: V1Pod): string {
  const status = pod.status ?? {}
  const initReason = initStatus(pod)
  let reason = initReason ?? containersStatus(pod) ?? (status.reason || status.phase || '')
  if (!initReason && reason === 'Completed' && anyRunning(pod)) {
    reason = hasCondition(status, 'Ready') ? 'Running' : 'NotReady'
  }
  if (!pod.metadata?.deletionTimestamp) return reason
  return status.reason === 'NodeLost' ? 'Unknown' : 'Terminating'
}

function initStatus(pod: V1Pod): string | undefined {
  const total = pod.spec?.initContainers?.length ?? 0
  for (const [index, container] of (pod.status?.initContainerStatuses ?? []).entries()) {
    const { terminated, waiting } = container.state ?? {}
    if (terminated?.exitCode === 0) continue
    if (terminated) return `Init:${terminated.reason || exitText(terminated)}`
    if (waiting?.reason && waiting.reason !== 'PodInitializing') return `Init:${waiting.reason}`
    return `Init:${index}/${total}`
  }
  return undefined
}

/** The first container that waits or has ended names the state; kubectl reads them from the last to the first. */
function containersStatus(pod: V1Pod): string | undefined {
  let reason: string | undefined
  for (const { state } of [...(pod.status?.containerStatuses ?? [])].reverse()) {
    if (state?.waiting?.reason) reason = state.waiting.reason
    else if (state?.terminated) reason = state.terminated.reason || exitText(state.terminated)
  }
  return reason
}

function exitText({ signal, exitCode }: { signal?: number; exitCode: number }): string {
  return signal ? `Signal:${signal}` : `ExitCode:${exitCode}`
}

function anyRunning(pod: V1Pod): boolean {
  return (pod.status?.containerStatuses ?? []).some((container) => container.ready && container.state?.running)
}

function hasCondition(status: V1Pod['status'], type: string): boolean {
  return (status?.conditions ?? []).some((own) => own.type === type && own.status === 'True')
}

function readyText(pod: V1Pod): string {
  const ready = (pod.status?.containerStatuses ?? []).filter((container) => container.ready && container.state?.running)
  return `${ready.length}/${pod.spec?.containers.length ?? 0}`
}

function restartsText(pod: V1Pod, now: Date): string {
  const statuses: V1ContainerStatus[] = [
    ...(initStatus(pod) ? (pod.status?.initContainerStatuses ?? []) : (pod.status?.containerStatuses ?? [])),
  ]
  const restarts = statuses.reduce((sum, container) => sum + container.restartCount, 0)
  const ends = statuses.flatMap((container) => {
    const end: unknown = container.lastState?.terminated?.finishedAt
    return typeof end === 'string' ? [end] : []
  })
  const last = ends.sort().at(-1)
  return restarts > 0 && last ? `${restarts} (${ageOf(last, now)} ago)` : String(restarts)
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

function nodeRoles(node: V1Node): string {
  const prefix = 'node-role.kubernetes.io/'
  const roles = Object.entries(node.metadata?.labels ?? {}).flatMap(([key, value]) => {
    if (key.startsWith(prefix)) return key.length > prefix.length ? [key.slice(prefix.length)] : []
    return key === 'kubernetes.io/role' && value ? [value] : []
  })
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

function controllerOf(revision: V1ControllerRevision): string {
  const owner = revision.metadata?.ownerReferences?.find((reference) => reference.controller)
  if (!owner) return '<none>'
  const group = owner.apiVersion.includes('/') ? `.${owner.apiVersion.split('/')[0]}` : ''
  return `${owner.kind.toLowerCase()}${group}/${owner.name}`
}

function readinessGates({ spec, status }: V1Pod): string {
  const gates = spec?.readinessGates ?? []
  const met = gates.filter(({ conditionType }) => hasCondition(status, conditionType))
  return gates.length > 0 ? `${met.length}/${gates.length}` : '<none>'
}

const templateColumns: readonly Column<Workload>[] = wide(
  { name: 'Containers', cell: (workload) => templateText(workload, 'name') },
  { name: 'Images', cell: (workload) => templateText(workload, 'image') },
  { name: 'Selector', cell: (workload) => selectorText(workload.spec?.selector) },
)

const byResource: Record<string, readonly Column[]> = {
  pods: columns<V1Pod>(
    nameColumn,
    { name: 'Ready', cell: readyText },
    { name: 'Status', cell: statusText },
    { name: 'Restarts', cell: restartsText },
    ageColumn,
    ...wide(
      field('IP', 'status.podIP'),
      field('Node', 'spec.nodeName'),
      field('Nominated Node', 'status.nominatedNodeName'),
      { name: 'Readiness Gates', cell: readinessGates },
    ),
  ),
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
  controllerrevisions: columns<V1ControllerRevision>(
    nameColumn,
    { name: 'Controller', cell: controllerOf },
    field('Revision', 'revision', 0),
    ageColumn,
  ),
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

/** The columns that kubectl prints for a resource. */
export function columnsOf(resource: string): readonly Column[] {
  return byResource[resource] ?? columns(nameColumn, ageColumn)
}
