import type {
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1Job,
  V1LabelSelector,
  V1PodTemplateSpec,
  V1ReplicaSet,
} from '@kubernetes/client-node'
import { ageOf, humanDuration } from './human-duration.ts'
import { ageColumn, type Column, columns, nameColumn } from './table-column.ts'
import { labelsText } from './table-service.ts'

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
