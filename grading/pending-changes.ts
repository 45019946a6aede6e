import { isKubeProxyPod } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { type ApiObject, hasCondition } from './api-object.ts'
import type { Snapshot } from './snapshot.ts'

/** Changes younger than this may not have reached every node yet. */
const FRESH_MS = 2500
/** The first sync of a kube-proxy writes everything, which takes a busy machine this long. */
const FIRST_SYNC_MS = 10_000
/** A Pod that is not ready after this time is failing its probe, and counts as settled. */
const UNREADY_MS = 5000
/**
 * A deleted Pod that is still ready after this time, and has LONG_HOOK_MS of its grace period left,
 * is in its preStop hook.
 */
const HOOK_MS = 1000
const LONG_HOOK_MS = 60_000
/** A container that waits for one of these reasons does not start without a change. */
const STUCK = new Set([
  'CrashLoopBackOff',
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'CreateContainerConfigError',
  'RunContainerError',
  'CreateContainerError',
])

/**
 * The pending changes of the cluster, one phrase each; empty if it is settled. Services and slices
 * count as pending for `freshMs` after a change, kube-proxies for `firstSyncMs` after their start.
 * A step that fails during this time is judged repeatedly, and is `not yet` at the deadline.
 */
export function pendingChanges(
  snapshot: Snapshot,
  freshMs = FRESH_MS,
  firstSyncMs = FIRST_SYNC_MS,
): string[] {
  const phrases: string[] = []
  const kubeProxies = snapshot.items.filter(isKubeProxyPod)
  const daemonSet = snapshot.find('DaemonSet', 'kube-system', 'kube-proxy')
  if (daemonSet && isRolling(daemonSet)) phrases.push('kube-proxy is being restarted')
  for (const pod of kubeProxies)
    if (isMoving(snapshot, pod)) phrases.push(`${pod.metadata.name} is starting or ending`)
  for (const item of snapshot.items) phrases.push(...pendingChangeOf(snapshot, item, freshMs))
  for (const node of snapshot.unsynced)
    phrases.push(`the kube-proxy of ${node} has not yet written the latest changes`)
  for (const pod of kubeProxies) {
    const started = pod.status?.containerStatuses?.[0]?.state?.running?.startedAt
    if (isFresh(snapshot, started, firstSyncMs))
      phrases.push(`${pod.metadata.name} has just started`)
  }
  return phrases
}

/** The pending change of one object: a Pod of the learner, a Service or an EndpointSlice. */
function pendingChangeOf(snapshot: Snapshot, item: ApiObject, freshMs: number): string[] {
  const { kind, metadata } = item
  const { namespace, name } = metadata
  if (kind === 'Pod' && namespace === 'default')
    return isMoving(snapshot, item) ? [`Pod ${name} is starting or ending`] : []
  if (kind !== 'Service' && kind !== 'EndpointSlice') return []
  return isFresh(snapshot, changedAt(item), freshMs) ? [`${kind} ${name} has just changed`] : []
}

function isRolling({ metadata, status }: ApiObject): boolean {
  if (!status) return false
  const { observedGeneration = 0, desiredNumberScheduled = 0, updatedNumberScheduled = 0 } = status
  return (
    observedGeneration < (metadata.generation ?? 0) ||
    updatedNumberScheduled < desiredNumberScheduled
  )
}

function isMoving(snapshot: Snapshot, pod: ApiObject): boolean {
  if (pod.metadata.deletionTimestamp) return !isInPreStop(snapshot, pod)
  const waiting = (pod.status?.containerStatuses ?? []).map(
    (status) => status.state?.waiting?.reason ?? '',
  )
  if (waiting.some((reason) => STUCK.has(reason))) return false
  if (pod.status?.phase === 'Pending') return true
  return (
    pod.status?.phase === 'Running' && !hasCondition(pod, 'Ready') && !isHeldBack(snapshot, pod)
  )
}

/**
 * It was deleted and goes on for a while: at once in a hook, else because its program takes long.
 * Needs the time of the snapshot.
 */
function isInPreStop({ takenAt }: Snapshot, pod: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata
  if (takenAt === undefined || !deletionTimestamp || !hasCondition(pod, 'Ready')) return false
  const endsAt = Date.parse(deletionTimestamp)
  const deletedAt = endsAt - (deletionGracePeriodSeconds ?? 0) * 1000
  const hasHook = pod.spec?.containers?.some(({ lifecycle }) => lifecycle?.preStop)
  return takenAt - deletedAt >= (hasHook ? HOOK_MS : UNREADY_MS) && endsAt - takenAt >= LONG_HOOK_MS
}

/** All its containers have been running for a while; needs the time of the snapshot. */
function isHeldBack({ takenAt }: Snapshot, { status }: ApiObject): boolean {
  const started = (status?.containerStatuses ?? []).map(({ state }) => state?.running?.startedAt)
  if (takenAt === undefined || started.length === 0) return false
  return started.every((time) => time !== undefined && takenAt - Date.parse(time) >= UNREADY_MS)
}

/**
 * The time of the last change: an EndpointSlice has it as an annotation, a Service in its
 * managedFields.
 */
function changedAt({ kind, metadata }: ApiObject): string | undefined {
  const edits =
    kind === 'Service' ? (metadata.managedFields ?? []).flatMap(({ time }) => time ?? []) : []
  return (
    metadata.annotations?.['endpoints.kubernetes.io/last-change-trigger-time'] ??
    edits.sort().at(-1) ??
    metadata.creationTimestamp ??
    undefined
  )
}

function isFresh(snapshot: Snapshot, time: string | undefined, freshMs: number): boolean {
  if (snapshot.takenAt === undefined || time === undefined) return false
  const age = snapshot.takenAt - Date.parse(time)
  return age >= 0 && age < freshMs
}
