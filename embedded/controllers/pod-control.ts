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
 * old Pods. A Pod without that time is the youngest.
 */
function ageRank(since: string | undefined, now: number): number {
  const age = (now - Date.parse(since ?? '')) * 1e6
  return age > 0 ? Math.floor(Math.log2(age)) : -1
}

/**
 * The Pods in the order in which a ReplicaSet scaled down deletes them, as ActivePodsWithRanks sorts: unassigned before
 * assigned, Pending before Unknown before Running, not ready before ready, lower deletion cost, more `related` Pods on
 * the same node, ready for a shorter time, more restarts, newer.
 */
export function deletionOrder(pods: readonly Pod[], related: readonly Pod[], now: number): Pod[] {
  const ranks = (pod: Pod): number[] => {
    const { metadata, spec, status } = pod
    const onNode = related.filter((other) => other.spec.nodeName === spec.nodeName)
    const restarts = (status?.containerStatuses ?? []).map(({ restartCount }) => restartCount)
    return [
      spec.nodeName ? 1 : 0,
      phaseRank[status?.phase ?? 'Pending'] ?? 0,
      isReady(pod) ? 1 : 0,
      Number.parseInt(metadata.annotations?.[deletionCost] ?? '0', 10) || 0,
      -onNode.length,
      ageRank(readyCondition(pod)?.lastTransitionTime, now),
      -Math.max(0, ...restarts),
      ageRank(metadata.creationTimestamp, now),
    ]
  }
  const ranked = pods.map((pod) => ({ pod, ranks: ranks(pod) }))
  ranked.sort((left, right) => {
    const differing = left.ranks.findIndex((rank, index) => rank !== right.ranks[index])
    if (differing < 0) return left.pod.metadata.uid < right.pod.metadata.uid ? -1 : 1
    return (left.ranks[differing] ?? 0) - (right.ranks[differing] ?? 0)
  })
  return ranked.map(({ pod }) => pod)
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
 * run. Spelled like Kubernetes' (rand.SafeEncodeString of a decimal), but the value differs, since Kubernetes hashes its
 * own memory layout of the template.
 */
export function templateHash(template: PodTemplate): string {
  const decimal = String(fnv32a(canonicalJson(template)))
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
