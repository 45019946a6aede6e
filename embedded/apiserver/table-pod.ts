import type { V1ContainerStatus, V1Pod } from '@kubernetes/client-node'
import { ageOf } from './human-duration.ts'
import { ageColumn, type Column, columns, nameColumn } from './table-column.ts'

/** The STATUS column: what holds a Pod up says more than its phase. */
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
