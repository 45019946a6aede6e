import type {
  CoreV1Event,
  V1ConfigMap,
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
import { ageColumn, ageOf, type Column, columns, field, humanDuration, nameColumn, wide } from './table.ts'

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

function jobStatus({ status }: V1Job): string {
  return status?.conditions?.find((condition) => condition.status === 'True')?.type ?? 'Running'
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

function firstThree(items: readonly string[]): string {
  const shown = items.slice(0, 3).join(',')
  return items.length > 3 ? `${shown} + ${items.length - 3} more...` : shown
}

const templateColumns: readonly Column<Workload>[] = wide(
  { name: 'Containers', cell: (workload) => templateText(workload, 'name') },
  { name: 'Images', cell: (workload) => templateText(workload, 'image') },
  { name: 'Selector', cell: (workload) => labelsText(workload.spec?.selector.matchLabels) },
)

// Pods.

/** The STATUS column: the reason why a Pod does not run, else its phase. */
function statusText(pod: V1Pod): string {
  const status = pod.status ?? {}
  const initReason = initStatus(pod)
  let reason = initReason ?? containersStatus(pod) ?? (status.reason || status.phase || '')
  if (!initReason && reason === 'Completed' && readyContainers(pod).length > 0) {
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

const readyContainers = ({ status }: V1Pod) =>
  (status?.containerStatuses ?? []).filter(({ ready, state }) => ready && state?.running)

function hasCondition(status: V1Pod['status'], type: string): boolean {
  return (status?.conditions ?? []).some((own) => own.type === type && own.status === 'True')
}

function restartsText(pod: V1Pod, now: Date): string {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  const statuses = initStatus(pod) ? initContainerStatuses : containerStatuses
  const restarts = statuses.reduce((sum, { restartCount }) => sum + restartCount, 0)
  // Times are strings in JSON, although client-node's types declare Date.
  const ends = statuses.flatMap(({ lastState }) => String(lastState?.terminated?.finishedAt ?? '') || [])
  const last = ends.sort().at(-1)
  return restarts > 0 && last ? `${restarts} (${ageOf(last, now)} ago)` : String(restarts)
}

function readinessGates({ spec, status }: V1Pod): string {
  const gates = spec?.readinessGates ?? []
  const met = gates.filter(({ conditionType }) => hasCondition(status, conditionType))
  return gates.length > 0 ? `${met.length}/${gates.length}` : '<none>'
}

const podColumns = columns<V1Pod>(
  nameColumn,
  { name: 'Ready', cell: (pod) => `${readyContainers(pod).length}/${pod.spec?.containers.length ?? 0}` },
  { name: 'Status', cell: statusText },
  { name: 'Restarts', cell: restartsText },
  ageColumn,
  ...wide(
    field('IP', 'status.podIP'),
    field('Node', 'spec.nodeName'),
    field('Nominated Node', 'status.nominatedNodeName'),
    { name: 'Readiness Gates', cell: readinessGates },
  ),
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
    { name: 'Ports', cell: ({ ports = [] }) => firstThree(ports.map(({ port = '*' }) => `${port}`)) || '<unset>' },
    {
      name: 'Endpoints',
      cell: ({ endpoints }) => firstThree(endpoints.flatMap(({ addresses }) => addresses)) || '<unset>',
    },
    ageColumn,
  ),
  configmaps: columns<V1ConfigMap>(
    nameColumn,
    { name: 'Data', cell: ({ data, binaryData }) => count(data) + count(binaryData) },
    ageColumn,
  ),
  events: columns<CoreV1Event>(
    { name: 'Last Seen', cell: lastSeen },
    field('Type', 'type', ''),
    field('Reason', 'reason', ''),
    {
      name: 'Object',
      cell: ({ involvedObject: { kind, name } = {} }) => `${(kind ?? '').toLowerCase()}/${name ?? ''}`,
    },
    { name: 'Message', cell: (event) => (event.message ?? '').trim() },
  ),
}

/** The columns of a resource: at least name and age. */
export function columnsOf(resource: string): readonly Column[] {
  return byResource[resource] ?? columns(nameColumn, ageColumn)
}
