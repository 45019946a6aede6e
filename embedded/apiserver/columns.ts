import type {
  V1ContainerStatus,
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1Job,
  V1LabelSelector,
  V1Pod,
  V1PodTemplateSpec,
  V1ReplicaSet,
  V1Service,
} from '@kubernetes/client-node'
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
export function columns<T>(own: readonly Column<T>[]): readonly Column[] {
  return own as readonly Column<unknown>[] as readonly Column[]
}

export const nameColumn: Column<unknown> = { name: 'Name', cell: (object) => (object as Stored).metadata.name }
export const ageColumn: Column<unknown> = {
  name: 'Age',
  cell: (object, now) => ageOf((object as Stored).metadata.creationTimestamp, now),
}

/** How long ago a time was, as kubectl's AGE column prints it: `5s`, `3m12s`, `7h5m`, `2d`, `1y30d`. */
export function ageOf(time: string | undefined, now: Date): string {
  if (!time) return '<unknown>'
  return humanDuration((now.getTime() - Date.parse(time)) / 1000)
}

export function humanDuration(exactSeconds: number): string {
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

export const serviceColumns: readonly Column[] = columns<V1Service>([
  nameColumn,
  { name: 'Type', cell: (service) => service.spec?.type ?? '' },
  { name: 'Cluster-IP', cell: (service) => service.spec?.clusterIP || '<none>' },
  { name: 'External-IP', cell: externalAddress },
  { name: 'Port(s)', cell: ports },
  ageColumn,
  { name: 'Selector', wide: true, cell: (service) => labelsText(service.spec?.selector) },
])

interface Workload {
  spec?: { template?: V1PodTemplateSpec; selector: V1LabelSelector }
}

const templateColumns: readonly Column<Workload>[] = [
  { name: 'Containers', wide: true, cell: (workload) => templateText(workload, 'name') },
  { name: 'Images', wide: true, cell: (workload) => templateText(workload, 'image') },
  { name: 'Selector', wide: true, cell: (workload) => selectorText(workload.spec?.selector) },
]

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

export const deploymentColumns: readonly Column[] = columns<V1Deployment>([
  nameColumn,
  { name: 'Ready', cell: ({ spec, status }) => `${status?.readyReplicas ?? 0}/${spec?.replicas ?? 0}` },
  { name: 'Up-to-date', cell: ({ status }) => status?.updatedReplicas ?? 0 },
  { name: 'Available', cell: ({ status }) => status?.availableReplicas ?? 0 },
  ageColumn,
  ...templateColumns,
])

export const replicaSetColumns: readonly Column[] = columns<V1ReplicaSet>([
  nameColumn,
  { name: 'Desired', type: 'integer', cell: ({ spec }) => spec?.replicas ?? 0 },
  { name: 'Current', type: 'integer', cell: ({ status }) => status?.replicas ?? 0 },
  { name: 'Ready', type: 'integer', cell: ({ status }) => status?.readyReplicas ?? 0 },
  ageColumn,
  ...templateColumns,
])

export const daemonSetColumns: readonly Column[] = columns<V1DaemonSet>([
  nameColumn,
  { name: 'Desired', type: 'integer', cell: ({ status }) => status?.desiredNumberScheduled ?? 0 },
  { name: 'Current', type: 'integer', cell: ({ status }) => status?.currentNumberScheduled ?? 0 },
  { name: 'Ready', type: 'integer', cell: ({ status }) => status?.numberReady ?? 0 },
  { name: 'Up-to-date', type: 'integer', cell: ({ status }) => status?.updatedNumberScheduled ?? 0 },
  { name: 'Available', type: 'integer', cell: ({ status }) => status?.numberAvailable ?? 0 },
  { name: 'Node Selector', cell: ({ spec }) => labelsText(spec?.template.spec?.nodeSelector) },
  ageColumn,
  ...templateColumns,
])

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

export const jobColumns: readonly Column[] = columns<V1Job>([
  nameColumn,
  { name: 'Status', cell: jobStatus },
  {
    name: 'Completions',
    cell: ({ spec, status }) => `${status?.succeeded ?? 0}/${spec?.completions ?? `1 of ${spec?.parallelism ?? 1}`}`,
  },
  { name: 'Duration', cell: jobDuration },
  ageColumn,
  { name: 'Containers', wide: true, cell: ({ spec }) => templateText({ spec } as Workload, 'name') },
  { name: 'Images', wide: true, cell: ({ spec }) => templateText({ spec } as Workload, 'image') },
  { name: 'Selector', wide: true, cell: ({ spec }) => selectorText(spec?.selector) },
])

export const cronJobColumns: readonly Column[] = columns<V1CronJob>([
  nameColumn,
  { name: 'Schedule', cell: ({ spec }) => spec?.schedule ?? '' },
  { name: 'Timezone', cell: ({ spec }) => spec?.timeZone ?? '<none>' },
  { name: 'Suspend', cell: ({ spec }) => (spec?.suspend ? 'True' : 'False') },
  { name: 'Active', type: 'integer', cell: ({ status }) => status?.active?.length ?? 0 },
  {
    name: 'Last Schedule',
    cell: ({ status }, now) => (status?.lastScheduleTime ? ageOf(String(status.lastScheduleTime), now) : '<none>'),
  },
  ageColumn,
])

/** The STATUS column: the reason why a Pod does not run, else its phase. */
function statusText(pod: V1Pod): string {
  const status = pod.status ?? {}
  const initReason = initStatus(pod)
  let reason = initReason ?? containersStatus(pod) ?? (status.reason || status.phase || '')
  if (!initReason && reason === 'Completed' && anyRunning(pod)) {
    reason = condition(pod, 'Ready') ? 'Running' : 'NotReady'
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

function condition(pod: V1Pod, type: string): boolean {
  return (pod.status?.conditions ?? []).some((own) => own.type === type && own.status === 'True')
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

function readinessGates(pod: V1Pod): string {
  const gates = pod.spec?.readinessGates ?? []
  if (gates.length === 0) return '<none>'
  return `${gates.filter((gate) => condition(pod, gate.conditionType)).length}/${gates.length}`
}

export const podColumns: readonly Column[] = columns<V1Pod>([
  nameColumn,
  { name: 'Ready', cell: readyText },
  { name: 'Status', cell: statusText },
  { name: 'Restarts', cell: restartsText },
  ageColumn,
  { name: 'IP', wide: true, cell: (pod) => pod.status?.podIP || '<none>' },
  { name: 'Node', wide: true, cell: (pod) => pod.spec?.nodeName || '<none>' },
  { name: 'Nominated Node', wide: true, cell: (pod) => pod.status?.nominatedNodeName || '<none>' },
  { name: 'Readiness Gates', wide: true, cell: readinessGates },
])
