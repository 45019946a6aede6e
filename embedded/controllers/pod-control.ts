import type { KubeObject } from '../apiserver/api.ts'
import { hasReason, messageOf } from '../apiserver/status-error.ts'
import type { ControllerContext } from './context.ts'
import type { EventRecorder } from './events.ts'
import { controllerReference } from './ownership.ts'
import { isReady, type Pod, type PodTemplate, readyCondition } from './resources.ts'

/** Creates and deletes Pods for a controller and records Events (pkg/controller's RealPodControl). */
export interface PodControl {
  /** Creates a Pod from the template, controlled by `owner`. On an error records FailedCreate and throws it. */
  create(owner: KubeObject, template: PodTemplate): Pod
  /** Deletes a Pod; no error if it does not exist. On another error records FailedDelete and throws it. */
  delete(owner: KubeObject, pod: Pod): void
}

export function createPodControl({ api }: ControllerContext, recorder: EventRecorder): PodControl {
  return {
    create(owner, { metadata, spec }) {
      const { namespace, name } = owner.metadata
      try {
        const pod = api.create<Pod>('pods', namespace, {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: {
            generateName: `${name}-`,
            ...(namespace && { namespace }),
            ...(metadata?.labels && { labels: metadata.labels }),
            ...(metadata?.annotations && { annotations: metadata.annotations }),
            ...(metadata?.finalizers && { finalizers: metadata.finalizers }),
            ownerReferences: [controllerReference(owner)],
          },
          spec,
        })
        recorder.event(owner, 'Normal', 'SuccessfulCreate', `Created pod: ${pod.metadata.name}`)
        return pod
      } catch (error) {
        recorder.event(owner, 'Warning', 'FailedCreate', `Error creating: ${messageOf(error)}`)
        throw error
      }
    },
    delete(owner, { metadata: { namespace, name } }) {
      try {
        api.delete('pods', namespace, name)
        recorder.event(owner, 'Normal', 'SuccessfulDelete', `Deleted pod: ${name}`)
      } catch (error) {
        if (hasReason(error, 'NotFound')) return
        recorder.event(owner, 'Warning', 'FailedDelete', `Error deleting: ${messageOf(error)}`)
        throw error
      }
    },
  }
}

const deletionCost = 'controller.kubernetes.io/pod-deletion-cost'
const phaseRank: Record<string, number> = { Pending: 0, Unknown: 1, Running: 2 }

/**
 * Ages are compared by powers of two of nanoseconds (LogarithmicScaleDown), so that scaling down sometimes also deletes
 * old Pods.
 */
function logarithmicAge(since: string | undefined, now: number): number {
  const age = (now - Date.parse(since ?? '')) * 1e6
  return age > 0 ? Math.floor(Math.log2(age)) : -1
}

function newerFirst(left: string | undefined, right: string | undefined, now: number): number {
  // A Pod without that time is first.
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

export const podTemplateHashLabel = 'pod-template-hash'

// apimachinery's alphabet for generated names: no vowels and no 0, 1, 3, to avoid words and misreading.
const safeAlphabet = 'bcdfghjklmnpqrstvwxz2456789'

/** 32-bit FNV-1a. */
function fnv32a(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash >>> 0
}

/**
 * The hash that names a template's ReplicaSet or DaemonSet revision: the same template gives the same hash in every
 * run, another `collisionCount` gives another one. Spelled like Kubernetes' (rand.SafeEncodeString of a decimal), but
 * the value differs, since Kubernetes hashes its own memory layout of the template.
 */
export function templateHash(template: PodTemplate, collisionCount = 0): string {
  const decimal = String(fnv32a(`${canonicalJson(template)}${collisionCount || ''}`))
  return [...decimal].map((digit) => safeAlphabet[digit.charCodeAt(0) % safeAlphabet.length]).join('')
}

/** True if both templates create the same Pods; the hash label that a ReplicaSet's template also has is ignored. */
export function sameTemplate(left: PodTemplate, right: PodTemplate): boolean {
  return canonicalJson(withoutHash(left)) === canonicalJson(withoutHash(right))
}

function withoutHash(template: PodTemplate): PodTemplate {
  const labels = { ...template.metadata?.labels }
  delete labels[podTemplateHashLabel]
  return { ...template, metadata: { ...template.metadata, labels } }
}

/** JSON with sorted keys: equal values have the same text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, field: unknown) =>
    field !== null && typeof field === 'object' && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([left], [right]) => (left < right ? -1 : 1)))
      : field,
  )
}
