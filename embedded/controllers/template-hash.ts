import { canonicalJson } from './canonical-json.ts'
import type { PodTemplate } from './resources.ts'

export const podTemplateHashLabel = 'pod-template-hash'

// apimachinery's alphabet for generated names: no vowels and no 0, 1, 3, so that no word and no misreading arises.
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

/** True when both templates make the same Pods; the hash label, which a ReplicaSet's template has more, is ignored. */
export function sameTemplate(left: PodTemplate, right: PodTemplate): boolean {
  return canonicalJson(withoutHash(left)) === canonicalJson(withoutHash(right))
}

function withoutHash(template: PodTemplate): PodTemplate {
  const labels = { ...template.metadata?.labels }
  delete labels[podTemplateHashLabel]
  return { ...template, metadata: { ...template.metadata, labels } }
}
