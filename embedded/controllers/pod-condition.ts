// What the state of a Pod means to controllers; the rules are k8s.io/kubernetes/pkg/api/v1/pod's and pkg/controller's.
import type { Pod } from './resources.ts'

/** The Pod's `Ready` condition, if the kubelet has set one. */
export function readyCondition(pod: Pod) {
  return pod.status?.conditions?.find(({ type }) => type === 'Ready')
}

export function isReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True'
}

/** Succeeded or Failed: its containers have ended for good. */
export function isTerminal(pod: Pod): boolean {
  return pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'
}

export function isTerminating(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp !== undefined
}

/** Counts towards a controller's replicas: neither ended nor being deleted. */
export function isActive(pod: Pod): boolean {
  return !isTerminal(pod) && !isTerminating(pod)
}

/** Milliseconds from `now` until a ready Pod counts as available; 0 when it does, Infinity when it is not ready. */
export function availableIn(pod: Pod, minReadySeconds: number, now: number): number {
  const ready = readyCondition(pod)
  if (ready?.status !== 'True') return Number.POSITIVE_INFINITY
  if (minReadySeconds === 0) return 0
  const since = Date.parse(ready.lastTransitionTime ?? '')
  if (Number.isNaN(since)) return Number.POSITIVE_INFINITY
  return Math.max(0, since + minReadySeconds * 1000 - now)
}

/** Ready for at least `minReadySeconds`. */
export function isAvailable(pod: Pod, minReadySeconds: number, now: number): boolean {
  return availableIn(pod, minReadySeconds, now) === 0
}
