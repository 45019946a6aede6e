import type { KubeObject } from '../apiserver/api.ts'
import { hasReason, messageOf } from '../apiserver/status-error.ts'
import type { ControllerContext } from './context.ts'
import type { EventRecorder } from './events.ts'
import { controllerReference } from './ownership.ts'
import type { Pod, PodTemplate } from './resources.ts'

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
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, field: unknown) =>
    field !== null && typeof field === 'object' && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([left], [right]) => (left < right ? -1 : 1)))
      : field,
  )
}
