import type * as k8s from '@kubernetes/client-node'
import { podColumns } from './pod-columns.ts'
import { Age, ageOf, type Column, columns, Name, or, wide } from './table.ts'

function externalAddress(service: k8s.V1Service): string {
  const spec = service.spec ?? {}
  const own = spec.externalIPs ?? []
  if (spec.type === 'ExternalName') return spec.externalName ?? ''
  if (spec.type !== 'LoadBalancer') return own.join(',') || '<none>'
  const ingress = (service.status?.loadBalancer?.ingress ?? []).flatMap(
    ({ ip, hostname }) => ip || hostname || [],
  )
  return [...ingress, ...own].join(',') || '<pending>'
}

function ports(service: k8s.V1Service): string {
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
  spec?: { template?: k8s.V1PodTemplateSpec; selector: k8s.V1LabelSelector }
}

function templateText(workload: Workload, field: 'name' | 'image'): string {
  return (workload.spec?.template?.spec?.containers ?? [])
    .map((container) => container[field] ?? '')
    .join(',')
}

/** The condition of a Job that has ended. */
const endOf = ({ status }: k8s.V1Job) =>
  status?.conditions?.find((condition) => condition.status === 'True')

function completions({ spec, status }: k8s.V1Job): string {
  const parallelism = spec?.parallelism ?? 1
  return `${status?.succeeded ?? 0}/${spec?.completions ?? (parallelism > 1 ? `1 of ${parallelism}` : 1)}`
}

function jobDuration(job: k8s.V1Job, now: Date): string {
  const start = job.status?.startTime
  // A time is text in JSON, although client-node's types declare Date.
  return start ? ageOf(start, new Date(endOf(job)?.lastTransitionTime ?? now)) : ''
}

function lastSeen(
  { firstTimestamp, lastTimestamp, count = 1 }: k8s.CoreV1Event,
  now: Date,
): string {
  const [first, last] = [ageOf(firstTimestamp, now), ageOf(lastTimestamp ?? firstTimestamp, now)]
  return count > 1 ? `${last} (x${count} over ${first})` : last
}

function nodeStatus(node: k8s.V1Node): string {
  const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready')
  const status = ready ? (ready.status === 'True' ? 'Ready' : 'NotReady') : 'Unknown'
  return node.spec?.unschedulable ? `${status},SchedulingDisabled` : status
}

function nodeRoles({ metadata }: k8s.V1Node): string {
  const roles = Object.keys(metadata?.labels ?? {}).flatMap(
    (key) => /^node-role\.kubernetes\.io\/(.+)$/.exec(key)?.[1] ?? [],
  )
  return roles.sort().join(',') || '<none>'
}

const nodeAddress =
  (type: string) =>
  ({ status }: k8s.V1Node): string =>
    status?.addresses?.find((address) => address.type === type)?.address ?? '<none>'

function endpointsText({ subsets = [] }: k8s.V1Endpoints): string {
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

/** The columns that kubectl prints for each resource. */
const byResource: Record<string, readonly Column[]> = {
  pods: podColumns,
  services: columns<k8s.V1Service>({
    Name,
    Type: 'spec.type',
    'Cluster-IP': 'spec.clusterIP',
    'External-IP': externalAddress,
    'Port(s)': ports,
    Age,
    ...wide({ Selector: ({ spec }: k8s.V1Service) => labelsText(spec?.selector) }),
  }),
  deployments: columns<k8s.V1Deployment>({
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
  jobs: columns<k8s.V1Job & Workload>({
    Name,
    Status: (job) => endOf(job)?.type ?? 'Running',
    Completions: completions,
    Duration: jobDuration,
    Age,
    ...template,
  }),
  cronjobs: columns<k8s.V1CronJob>({
    Name,
    Schedule: 'spec.schedule',
    Timezone: 'spec.timeZone',
    Suspend: ({ spec }) => (spec?.suspend ? 'True' : 'False'),
    Active: ({ status }) => status?.active?.length ?? 0,
    'Last Schedule': ({ status }, now) =>
      status?.lastScheduleTime ? ageOf(status.lastScheduleTime, now) : '<none>',
    Age,
  }),
  nodes: columns<k8s.V1Node>({
    Name,
    Status: nodeStatus,
    Roles: nodeRoles,
    Age,
    Version: 'status.nodeInfo.kubeletVersion',
    ...wide({
      'Internal-IP': nodeAddress('InternalIP'),
      'External-IP': nodeAddress('ExternalIP'),
      'OS-Image': or('<unknown>', 'status.nodeInfo.osImage'),
      'Kernel-Version': or('<unknown>', 'status.nodeInfo.kernelVersion'),
      'Container-Runtime': or('<unknown>', 'status.nodeInfo.containerRuntimeVersion'),
    }),
  }),
  namespaces: columns({ Name, Status: 'status.phase', Age }),
  endpoints: columns<k8s.V1Endpoints>({ Name, Endpoints: endpointsText, Age }),
  endpointslices: columns<k8s.V1EndpointSlice>({
    Name,
    AddressType: 'addressType',
    Ports: ({ ports = [] }) => firstThree(ports.map(({ port = '*' }) => `${port}`)) || '<unset>',
    Endpoints: ({ endpoints }) =>
      firstThree(endpoints.flatMap(({ addresses }) => addresses)) || '<unset>',
    Age,
  }),
  configmaps: columns<k8s.V1ConfigMap>({
    Name,
    Data: ({ data = {}, binaryData = {} }) =>
      Object.keys(data).length + Object.keys(binaryData).length,
    Age,
  }),
  events: columns<k8s.CoreV1Event>({
    'Last Seen': lastSeen,
    Type: or('', 'type'),
    Reason: or('', 'reason'),
    Object: ({ involvedObject: { kind, name } = {} }) =>
      `${(kind ?? '').toLowerCase()}/${name ?? ''}`,
    Message: (event) => (event.message ?? '').trim(),
  }),
}

/** The columns of a resource: at least name and age. */
export function columnsOf(resource: string): readonly Column[] {
  return byResource[resource] ?? columns({ Name, Age })
}
