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
import { ageOf, type Column, columns, humanDuration, or, wide } from './table.ts'

function externalAddress(service: V1Service): string {
  const spec = service.spec ?? {}
  const own = spec.externalIPs ?? []
  if (spec.type === 'ExternalName') return spec.externalName ?? ''
  if (spec.type !== 'LoadBalancer') return own.join(',') || '<none>'
  const ingress = (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => ip || hostname || [])
  return [...ingress, ...own].join(',') || '<pending>'
}

function ports(service: V1Service): string {
  const shown = (service.spec?.ports ?? []).map(
    ({ port, nodePort, protocol }) => `${port}${nodePort ? `:${nodePort}` : ''}/${protocol}`,
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

const nodeAddress =
  (type: string) =>
  ({ status }: V1Node): string =>
    status?.addresses?.find((address) => address.type === type)?.address ?? '<none>'

function endpointsText({ subsets = [] }: V1Endpoints): string {
  const all = subsets.flatMap(({ addresses = [], ports = [] }) =>
    (ports.length > 0 ? ports.map(({ port }) => `:${port}`) : ['']).flatMap((port) =>
      addresses.map(({ ip }) => `${ip}${port}`),
    ),
  )
  return firstThree(all) || '<none>'
}

function firstThree(items: readonly string[]): string {
  const shown = items.slice(0, 3).join(',')
  return items.length > 3 ? `${shown} + ${items.length - 3} more...` : shown
}

const template = wide({
  Containers: (workload: Workload) => templateText(workload, 'name'),
  Images: (workload: Workload) => templateText(workload, 'image'),
  Selector: (workload: Workload) => labelsText(workload.spec?.selector.matchLabels),
})

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

const Name = 'metadata.name'
const Age = (object: unknown, now: Date) => ageOf(valueAt(object, 'metadata.creationTimestamp'), now)

/** The columns that kubectl prints for each resource. */
const byResource: Record<string, readonly Column[]> = {
  pods: columns<V1Pod>({
    Name,
    Ready: (pod) => `${readyContainers(pod).length}/${pod.spec?.containers.length ?? 0}`,
    Status: statusText,
    Restarts: restartsText,
    Age,
    ...wide({ IP: 'status.podIP', Node: 'spec.nodeName', 'Nominated Node': 'status.nominatedNodeName' }),
    ...wide({ 'Readiness Gates': readinessGates }),
  }),
  services: columns<V1Service>({
    Name,
    Type: 'spec.type',
    'Cluster-IP': 'spec.clusterIP',
    'External-IP': externalAddress,
    'Port(s)': ports,
    Age,
    ...wide({ Selector: ({ spec }: V1Service) => labelsText(spec?.selector) }),
  }),
  deployments: columns<V1Deployment>({
    Name,
    Ready: ({ spec, status }) => `${status?.readyReplicas ?? 0}/${spec?.replicas ?? 0}`,
    'Up-to-date': or(0, 'status.updatedReplicas'),
    Available: or(0, 'status.availableReplicas'),
    Age,
    ...template,
  }),
  replicasets: columns({
    Name,
    Desired: or(0, 'spec.replicas'),
    Current: or(0, 'status.replicas'),
    Ready: or(0, 'status.readyReplicas'),
    Age,
    ...template,
  }),
  daemonsets: columns<Workload>({
    Name,
    Desired: or(0, 'status.desiredNumberScheduled'),
    Current: or(0, 'status.currentNumberScheduled'),
    Ready: or(0, 'status.numberReady'),
    'Up-to-date': or(0, 'status.updatedNumberScheduled'),
    Available: or(0, 'status.numberAvailable'),
    'Node Selector': ({ spec }) => labelsText(spec?.template?.spec?.nodeSelector),
    Age,
    ...template,
  }),
  jobs: columns<V1Job & Workload>({
    Name,
    Status: jobStatus,
    Completions: ({ spec, status }) =>
      `${status?.succeeded ?? 0}/${spec?.completions ?? `1 of ${spec?.parallelism ?? 1}`}`,
    Duration: jobDuration,
    Age,
    ...template,
  }),
  cronjobs: columns({
    Name,
    Schedule: 'spec.schedule',
    Timezone: 'spec.timeZone',
    Suspend: (cronJob) => (valueAt(cronJob, 'spec.suspend') ? 'True' : 'False'),
    Active: (cronJob) => count(valueAt(cronJob, 'status.active')),
    'Last Schedule': (cronJob, now) => {
      const time = valueAt(cronJob, 'status.lastScheduleTime')
      return time ? ageOf(time, now) : '<none>'
    },
    Age,
  }),
  nodes: columns<V1Node>({
    ...{ Name, Status: nodeStatus, Roles: nodeRoles, Age, Version: 'status.nodeInfo.kubeletVersion' },
    ...wide({
      'Internal-IP': nodeAddress('InternalIP'),
      'External-IP': nodeAddress('ExternalIP'),
      'OS-Image': or('<unknown>', 'status.nodeInfo.osImage'),
      'Kernel-Version': or('<unknown>', 'status.nodeInfo.kernelVersion'),
      'Container-Runtime': or('<unknown>', 'status.nodeInfo.containerRuntimeVersion'),
    }),
  }),
  namespaces: columns({ Name, Status: 'status.phase', Age }),
  endpoints: columns<V1Endpoints>({ Name, Endpoints: endpointsText, Age }),
  endpointslices: columns<V1EndpointSlice>({
    Name,
    AddressType: 'addressType',
    Ports: ({ ports = [] }) => firstThree(ports.map(({ port = '*' }) => `${port}`)) || '<unset>',
    Endpoints: ({ endpoints }) => firstThree(endpoints.flatMap(({ addresses }) => addresses)) || '<unset>',
    Age,
  }),
  configmaps: columns<V1ConfigMap>({ Name, Data: ({ data, binaryData }) => count(data) + count(binaryData), Age }),
  events: columns<CoreV1Event>({
    'Last Seen': lastSeen,
    Type: or('', 'type'),
    Reason: or('', 'reason'),
    Object: ({ involvedObject: { kind, name } = {} }) => `${(kind ?? '').toLowerCase()}/${name ?? ''}`,
    Message: (event) => (event.message ?? '').trim(),
  }),
}

/** The columns of a resource: at least name and age. */
export function columnsOf(resource: string): readonly Column[] {
  return byResource[resource] ?? columns({ Name, Age })
}
