import type { Api, KubeObject } from '../apiserver/api.ts'
import { messageOf } from '../apiserver/status-error.ts'
import { remove } from './context.ts'
import type { EventRecorder } from './events.ts'
import { controllerReference } from './ownership.ts'
import type { Pod, PodTemplate } from './resources.ts'

/** Creates and deletes Pods for a controller and records Events (pkg/controller's RealPodControl). */
export class PodControl {
  private readonly api: Api
  private readonly recorder: EventRecorder

  constructor(api: Api, recorder: EventRecorder) {
    this.api = api
    this.recorder = recorder
  }

  /** Creates a Pod from the template, controlled by `owner`. On an error records FailedCreate and throws it. */
  create(owner: KubeObject, { metadata: { labels, annotations } = {}, spec }: PodTemplate): void {
    const { namespace, name } = owner.metadata
    const ownerReferences = [controllerReference(owner)]
    const copied = { ...(labels && { labels }), ...(annotations && { annotations }) }
    const metadata = { generateName: `${name}-`, ...copied, ownerReferences }
    try {
      const pod = this.api.create<Pod>('pods', namespace, { metadata, spec })
      this.recorder.event(owner, 'Normal', 'SuccessfulCreate', `Created pod: ${pod.metadata.name}`)
    } catch (error) {
      this.recorder.event(owner, 'Warning', 'FailedCreate', `Error creating: ${messageOf(error)}`)
      throw error
    }
  }

  /** Deletes a Pod; no error if it does not exist. */
  delete(owner: KubeObject, { metadata }: Pod): void {
    remove(this.api, 'pods', metadata)
    this.recorder.event(owner, 'Normal', 'SuccessfulDelete', `Deleted pod: ${metadata.name}`)
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
