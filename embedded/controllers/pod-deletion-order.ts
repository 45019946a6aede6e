import { isReady, readyCondition } from './pod-condition.ts'
import type { Pod } from './resources.ts'

const deletionCost = 'controller.kubernetes.io/pod-deletion-cost'
const phaseRank: Record<string, number> = { Pending: 0, Unknown: 1, Running: 2 }

/** Ages count by powers of two of nanoseconds (LogarithmicScaleDown), so that scaling down hits old Pods now and then. */
function logarithmicAge(since: string | undefined, now: number): number {
  const age = (now - Date.parse(since ?? '')) * 1e6
  return age > 0 ? Math.floor(Math.log2(age)) : -1
}

function newerFirst(left: string | undefined, right: string | undefined, now: number): number {
  // A Pod that never had the time set goes first.
  if (!left || !right) return Number(Boolean(left)) - Number(Boolean(right))
  return logarithmicAge(left, now) - logarithmicAge(right, now)
}

function cost(pod: Pod): number {
  const value = Number.parseInt(pod.metadata.annotations?.[deletionCost] ?? '0', 10)
  return Number.isNaN(value) ? 0 : value
}

function restarts(pod: Pod): number {
  return Math.max(0, ...(pod.status?.containerStatuses ?? []).map(({ restartCount }) => restartCount))
}

/**
 * The Pods in the order in which a ReplicaSet scaled down deletes them, as ActivePodsWithRanks sorts: unassigned before
 * assigned, Pending before Unknown before Running, not ready before ready, lower deletion cost, more `related` Pods on
 * the same node, ready for a shorter time, more restarts, newer.
 */
export function deletionOrder(pods: readonly Pod[], related: readonly Pod[], now: number): Pod[] {
  const onNode = new Map<string, number>()
  for (const { spec } of related) {
    if (spec.nodeName) onNode.set(spec.nodeName, (onNode.get(spec.nodeName) ?? 0) + 1)
  }
  const rank = (pod: Pod) => onNode.get(pod.spec.nodeName ?? '') ?? 0
  const phase = (pod: Pod) => phaseRank[pod.status?.phase ?? 'Pending'] ?? 0
  return [...pods].sort(
    (left, right) =>
      Number(Boolean(left.spec.nodeName)) - Number(Boolean(right.spec.nodeName)) ||
      phase(left) - phase(right) ||
      Number(isReady(left)) - Number(isReady(right)) ||
      cost(left) - cost(right) ||
      rank(right) - rank(left) ||
      (isReady(left) && isReady(right)
        ? newerFirst(readyCondition(left)?.lastTransitionTime, readyCondition(right)?.lastTransitionTime, now)
        : 0) ||
      restarts(right) - restarts(left) ||
      newerFirst(left.metadata.creationTimestamp, right.metadata.creationTimestamp, now) ||
      (left.metadata.uid < right.metadata.uid ? -1 : 1),
  )
}
