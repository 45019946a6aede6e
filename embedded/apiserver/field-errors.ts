import type { ObjectMeta } from './api.ts'
import type { Resource } from './resource.ts'
import type { StatusCause } from './status-error.ts'

/** Collects the faults of one object with the messages of Kubernetes' field errors. */
export class FieldErrors {
  readonly causes: StatusCause[] = []

  invalid(field: string, value: unknown, detail: string): void {
    this.add('FieldValueInvalid', field, `Invalid value: ${shown(value)}: ${detail}`)
  }

  required(field: string, detail?: string): void {
    this.add('FieldValueRequired', field, detail ? `Required value: ${detail}` : 'Required value')
  }

  notSupported(field: string, value: unknown, supported: readonly string[]): void {
    const choices = [...supported].sort().map((choice) => JSON.stringify(choice))
    this.add(
      'FieldValueNotSupported',
      field,
      `Unsupported value: ${shown(value)}: supported values: ${choices.join(', ')}`,
    )
  }

  duplicate(field: string, value: unknown): void {
    this.add('FieldValueDuplicate', field, `Duplicate value: ${shown(value)}`)
  }

  /** A reference to an object that does not exist. */
  notFound(field: string, value: unknown): void {
    this.add('FieldValueNotFound', field, `Not found: ${shown(value)}`)
  }

  forbidden(field: string, detail: string): void {
    this.add('FieldValueForbidden', field, `Forbidden: ${detail}`)
  }

  tooLong(field: string, limit: number): void {
    this.add('FieldValueTooLong', field, `Too long: may not be more than ${limit} bytes`)
  }

  private add(reason: string, field: string, message: string): void {
    this.causes.push({ reason, message, field })
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'null' : JSON.stringify(value)
}

// The syntax of names, labels and port names: RFC 1123, RFC 1035, RFC 6335 and Kubernetes' qualified names. Each
// function returns the faults with Kubernetes' messages.

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const subdomain = String.raw`${label}(\.${label})*`
const serviceName = '[a-z]([-a-z0-9]*[a-z0-9])?'
const qualifiedPart = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'
const labelValue = `(${qualifiedPart})?`

function whole(pattern: string, text: string): boolean {
  return new RegExp(`^(?:${pattern})$`).test(text)
}

function tooLong(text: string, limit: number): string[] {
  return Buffer.byteLength(text) > limit ? [`must be no more than ${limit} bytes`] : []
}

export function subdomainFaults(name: string): string[] {
  const faults = tooLong(name, 253)
  if (!whole(subdomain, name)) {
    faults.push(
      `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${subdomain}')`,
    )
  }
  return faults
}

export function labelFaults(name: string): string[] {
  const faults = tooLong(name, 63)
  if (!whole(label, name)) {
    faults.push(
      `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '${label}')`,
    )
  }
  return faults
}

function serviceNameFaults(name: string): string[] {
  const faults = tooLong(name, 63)
  if (!whole(serviceName, name)) {
    faults.push(
      `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '${serviceName}')`,
    )
  }
  return faults
}

function labelValueFaults(value: string): string[] {
  const faults = tooLong(value, 63)
  if (!whole(labelValue, value)) {
    faults.push(
      `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '${labelValue}')`,
    )
  }
  return faults
}

/** Keys of labels and annotations: an optional DNS prefix and a name. */
export function qualifiedNameFaults(key: string): string[] {
  const parts = key.split('/')
  if (parts.length > 2) {
    return [
      `a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${qualifiedPart}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ]
  }
  const name = parts.at(-1) ?? ''
  const faults: string[] = []
  if (parts.length === 2) {
    const prefix = parts[0] ?? ''
    if (prefix === '') faults.push('prefix part must be non-empty')
    else faults.push(...subdomainFaults(prefix).map((fault) => `prefix part ${fault}`))
  }
  if (name === '') faults.push('name part must be non-empty')
  else faults.push(...tooLong(name, 63).map((fault) => `name part ${fault}`))
  if (!whole(qualifiedPart, name)) {
    faults.push(
      `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${qualifiedPart}')`,
    )
  }
  return faults
}

/** Names of container ports (RFC 6335 service names). */
export function portNameFaults(name: string): string[] {
  const faults: string[] = []
  if (name.length > 15) faults.push('must be no more than 15 characters')
  if (!/^[-a-z0-9]+$/.test(name)) faults.push('must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)')
  if (!/[a-z]/.test(name)) faults.push('must contain at least one letter (a-z)')
  if (name.includes('--')) faults.push('must not contain consecutive hyphens')
  if (/^-|-$/.test(name)) faults.push('must not begin or end with a hyphen')
  return faults
}

export function portNumberFaults(port: number): string[] {
  return Number.isInteger(port) && port >= 1 && port <= 65535 ? [] : ['must be between 1 and 65535, inclusive']
}

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
