import type { ObjectMeta } from './api.ts'
import type { FieldErrors } from './field-errors.ts'
import { labelFaults, labelValueFaults, qualifiedNameFaults, serviceNameFaults, subdomainFaults } from './name-rules.ts'
import type { Resource } from './resource.ts'

const annotationLimit = 256 * 1024

/** Faults of an object's metadata: name, labels, annotations, owners, finalizers. */
export function validateMeta(meta: ObjectMeta, resource: Resource, errors: FieldErrors): void {
  if (!meta.name) errors.required('metadata.name', 'name or generateName is required')
  else for (const fault of nameFaults(meta.name, resource)) errors.invalid('metadata.name', meta.name, fault)
  validateLabels(meta.labels, 'metadata.labels', errors)
  let size = 0
  for (const [key, value] of Object.entries(meta.annotations ?? {})) {
    // The API compares annotation keys without regard to case in their prefix.
    for (const fault of qualifiedNameFaults(key.toLowerCase())) errors.invalid('metadata.annotations', key, fault)
    size += key.length + value.length
  }
  if (size > annotationLimit) errors.tooLong('metadata.annotations', annotationLimit)
  for (const [index, owner] of (meta.ownerReferences ?? []).entries()) {
    const path = `metadata.ownerReferences[${index}]`
    for (const field of ['apiVersion', 'kind', 'name', 'uid'] as const) {
      if (!owner[field]) errors.invalid(`${path}.${field}`, owner[field] ?? '', 'must not be empty')
    }
  }
  for (const [index, finalizer] of (meta.finalizers ?? []).entries()) {
    for (const fault of qualifiedNameFaults(finalizer)) {
      errors.invalid(`metadata.finalizers[${index}]`, finalizer, fault)
    }
  }
}

export function validateLabels(labels: Record<string, string> | undefined, path: string, errors: FieldErrors): void {
  for (const [key, value] of Object.entries(labels ?? {})) {
    for (const fault of qualifiedNameFaults(key)) errors.invalid(path, key, fault)
    for (const fault of labelValueFaults(value)) errors.invalid(path, value, fault)
  }
}

function nameFaults(name: string, resource: Resource): string[] {
  if (resource.nameRule === 'label') return labelFaults(name)
  if (resource.nameRule === 'service') return serviceNameFaults(name)
  return subdomainFaults(name)
}
