import type * as k8s from '@kubernetes/client-node'
import { Age, ageOf, columns, Name, wide } from './table.ts'

/** The STATUS column: the reason why a Pod does not run, else its phase. */
function statusText(pod: k8s.V1Pod): string {
  if (pod.metadata?.deletionTimestamp) return 'Terminating'
  const { reason: own, phase = '', containerStatuses = [] } = pod.status ?? {}
  const initReason = initStatus(pod)
  if (initReason) return initReason
  // Of several containers that wait or have ended, the first one.
  const reasons = containerStatuses.map(
    ({ state }) => state?.waiting?.reason ?? state?.terminated?.reason,
  )
  const reason = reasons.find(Boolean) ?? (own || phase)
  if (reason !== 'Completed' || !containerStatuses.some(isContainerReady)) return reason
  return hasPodCondition(pod, 'Ready') ? 'Running' : 'NotReady'
}

function initStatus(pod: k8s.V1Pod): string | undefined {
  const total = pod.spec?.initContainers?.length ?? 0
  for (const [index, container] of (pod.status?.initContainerStatuses ?? []).entries()) {
    const { terminated, waiting } = container.state ?? {}
    if (
      terminated?.exitCode === 0 ||
      (container.started && sidecarsOf(pod).includes(container.name))
    )
      continue
    if (terminated) return `Init:${terminated.reason}`
    if (waiting?.reason && waiting.reason !== 'PodInitializing') return `Init:${waiting.reason}`
    return `Init:${index}/${total}`
  }
  return undefined
}

const isContainerReady = ({ ready, state }: k8s.V1ContainerStatus) =>
  ready && state?.running !== undefined

/** The names of the init containers that run beside the others (KEP-753). */
function sidecarsOf({ spec }: k8s.V1Pod): string[] {
  return (spec?.initContainers ?? [])
    .filter(({ restartPolicy }) => restartPolicy === 'Always')
    .map(({ name }) => name)
}

/** The statuses of the sidecars and of the other containers. */
function statusesOf(pod: k8s.V1Pod): k8s.V1ContainerStatus[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  const sidecars = sidecarsOf(pod)
  return [
    ...initContainerStatuses.filter(({ name }) => sidecars.includes(name)),
    ...containerStatuses,
  ]
}

function hasPodCondition({ status }: k8s.V1Pod, type: string): boolean {
  return (status?.conditions ?? []).some((own) => own.type === type && own.status === 'True')
}

function restartsText(pod: k8s.V1Pod, now: Date): string {
  const statuses = initStatus(pod) ? (pod.status?.initContainerStatuses ?? []) : statusesOf(pod)
  const restarts = statuses.reduce((sum, { restartCount }) => sum + restartCount, 0)
  const ends = statuses.flatMap(
    ({ lastState }) => String(lastState?.terminated?.finishedAt ?? '') || [],
  )
  const last = ends.sort().at(-1)
  return restarts > 0 && last ? `${restarts} (${ageOf(last, now)} ago)` : String(restarts)
}

function readinessGates(pod: k8s.V1Pod): string {
  const gates = pod.spec?.readinessGates ?? []
  const met = gates.filter(({ conditionType }) => hasPodCondition(pod, conditionType))
  return gates.length > 0 ? `${met.length}/${gates.length}` : '<none>'
}

/** The columns that kubectl prints for Pods. */
export const podColumns = columns<k8s.V1Pod>({
  Name,
  Ready: (pod) => {
    const total = (pod.spec?.containers.length ?? 0) + sidecarsOf(pod).length
    return `${statusesOf(pod).filter(isContainerReady).length}/${total}`
  },
  Status: statusText,
  Restarts: restartsText,
  Age,
  ...wide({
    IP: 'status.podIP',
    Node: 'spec.nodeName',
    'Nominated Node': 'status.nominatedNodeName',
  }),
  ...wide({ 'Readiness Gates': readinessGates }),
})
