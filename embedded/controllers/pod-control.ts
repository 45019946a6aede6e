import { createHash } from 'node:crypto'
import type { Api, KubeObject } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'
import { nameAlphabet } from '../apiserver/object-lifecycle.ts'
import { EventRecorder } from './events.ts'
import { controllerReference } from './ownership.ts'
import type { Pod, PodTemplate } from './resources.ts'

/**
 * Creates and deletes Pods for the controller named `component`, and records Events
 * (pkg/controller's RealPodControl).
 */
export class PodControl {
  readonly #api: Api
  readonly #recorder: EventRecorder

  constructor(api: Api, component: string) {
    this.#api = api
    this.#recorder = new EventRecorder(api, component)
  }

  /** Creates a Pod from the template, controlled by `owner`. */
  create(owner: KubeObject, { metadata: { labels, annotations } = {}, spec }: PodTemplate): void {
    const { namespace, name } = owner.metadata
    const metadata = {
      generateName: `${name}-`,
      labels,
      annotations,
      ownerReferences: [controllerReference(owner)],
    }
    const pod = this.#api.create<Pod>('pods', namespace, { metadata, spec })
    this.#recorder.event(owner, 'Normal', 'SuccessfulCreate', `Created pod: ${pod.metadata.name}`)
  }

  delete(owner: KubeObject, { metadata: { namespace, name } }: Pod): void {
    this.#api.delete('pods', namespace, name)
    this.#recorder.event(owner, 'Normal', 'SuccessfulDelete', `Deleted pod: ${name}`)
  }
}

export const podTemplateHashLabel = 'pod-template-hash'

/**
 * The hash that names a template's ReplicaSet or DaemonSet revision, spelled like Kubernetes',
 * which hashes its layout in memory.
 */
export function templateHash(template: PodTemplate): string {
  const bytes = createHash('sha256').update(canonicalJson(template)).digest().subarray(0, 10)
  return [...bytes].map((byte) => nameAlphabet[byte % nameAlphabet.length]).join('')
}

/**
 * True if both templates create the same Pods; the hash label that a ReplicaSet's template also has
 * is ignored.
 */
export function sameTemplate(left: PodTemplate, right: PodTemplate): boolean {
  const withoutHash = ({ metadata, ...template }: PodTemplate) => {
    const labels = { ...metadata?.labels, [podTemplateHashLabel]: undefined }
    return { ...template, metadata: { ...metadata, labels } }
  }
  return sameJson(withoutHash(left), withoutHash(right))
}

/** JSON with sorted keys: equal values have the same text. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, field: unknown) =>
    field !== null && typeof field === 'object' && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([left], [right]) => (left < right ? -1 : 1)))
      : field,
  )
}
