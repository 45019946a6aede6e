import type { V1Pod } from '@kubernetes/client-node'
import { ageColumn, ageOf, columns, field, nameColumn, wide } from './column.ts'

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

export const podColumns = columns<V1Pod>(
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
)
