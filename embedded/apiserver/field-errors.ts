import type { Resource } from './resource.ts'
import type { StatusCause } from './status-error.ts'
import type { ObjectMeta } from './store.ts'

/** Collects the faults of one object with the messages of Kubernetes' field errors. */
export class FieldErrors {
  readonly causes: StatusCause[] = []

  invalid(field: string, value: unknown, detail: string): void {
    this.add('FieldValueInvalid', field, `Invalid value: ${shown(value)}: ${detail}`)
  }

  required(field: string, detail?: string): void {
    this.add('FieldValueRequired', field, detail ? `Required value: ${detail}` : 'Required value')
  }

  forbidden(field: string, detail: string): void {
    this.add('FieldValueForbidden', field, `Forbidden: ${detail}`)
  }

  /** Checks that a value, if there is one, is one of a list. */
  checkChoice(field: string, value: string | undefined, supported: readonly string[]): void {
    if (value === undefined || supported.includes(value)) return
    const choices = [...supported].sort().map((choice) => JSON.stringify(choice))
    const message = `Unsupported value: ${shown(value)}: supported values: ${choices.join(', ')}`
    this.add('FieldValueNotSupported', field, message)
  }

  /** Checks that the text has a syntax. */
  checkSyntax(field: string, text: string, syntax: keyof typeof syntaxes): void {
    for (const fault of syntaxFaults(text, syntax)) this.invalid(field, text, fault)
  }

  /** Checks that the value is not among those seen before, and remembers it. */
  checkUnique(field: string, value: string, seen: Set<string>): void {
    if (seen.has(value)) this.add('FieldValueDuplicate', field, `Duplicate value: ${shown(value)}`)
    seen.add(value)
  }

  checkPort(field: string, port: number): void {
    if (Number.isInteger(port) && port >= 1 && port <= 65535) return
    this.invalid(field, port, 'must be between 1 and 65535, inclusive')
  }

  /** Checks the numbers of an object's fields that are present. */
  checkNotNegative(path: string, object: object | undefined, fields: readonly string[]): void {
    for (const [field, value] of Object.entries(object ?? {}))
      if (fields.includes(field) && typeof value === 'number' && value < 0)
        this.invalid(`${path}.${field}`, value, 'must be greater than or equal to 0')
  }

  checkLabels(field: string, labels: Record<string, string> | undefined): void {
    for (const [key, value] of Object.entries(labels ?? {})) {
      this.checkKey(field, key)
      this.checkSyntax(field, value, 'labelValue')
    }
  }

  /** Checks the key of a label or annotation: an optional DNS prefix and a name. */
  checkKey(field: string, key: string): void {
    const [name = '', prefix, ...more] = key.split('/').reverse()
    if (more.length > 0) {
      const detail = `${syntaxes.name.fault} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`
      this.invalid(field, key, detail)
      return
    }
    if (prefix === '') this.invalid(field, key, 'prefix part must be non-empty')
    else if (prefix)
      for (const fault of syntaxFaults(prefix, 'subdomain')) this.invalid(field, key, `prefix part ${fault}`)
    if (name === '') this.invalid(field, key, 'name part must be non-empty')
    for (const fault of syntaxFaults(name, 'name'))
      this.invalid(field, key, `name part ${fault.replace('a qualified name ', '')}`)
  }

  /** Adds a fault with Kubernetes' reason. */
  add(reason: string, field: string, message: string): void {
    this.causes.push({ reason, message, field })
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'null' : JSON.stringify(value)
}

interface Syntax {
  pattern: string
  limit: number
  /** Kubernetes' message. */
  fault: string
}

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const subdomain = String.raw`${label}(\.${label})*`
const serviceName = '[a-z]([-a-z0-9]*[a-z0-9])?'
const name = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'
const dataKey = '[-._a-zA-Z0-9]+'

/** The syntax of names and labels: RFC 1123, RFC 1035 and Kubernetes' qualified names. */
const syntaxes = {
  subdomain: {
    pattern: subdomain,
    limit: 253,
    fault: `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${subdomain}')`,
  },
  label: {
    pattern: label,
    limit: 63,
    fault: `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '${label}')`,
  },
  service: {
    pattern: serviceName,
    limit: 63,
    fault: `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '${serviceName}')`,
  },
  labelValue: {
    pattern: `(${name})?`,
    limit: 63,
    fault: `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${name})?')`,
  },
  name: {
    pattern: name,
    limit: 63,
    fault: `a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${name}')`,
  },
  dataKey: {
    pattern: dataKey,
    limit: 253,
    fault: `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '${dataKey}')`,
  },
} satisfies Record<string, Syntax>

function syntaxFaults(text: string, syntax: keyof typeof syntaxes): string[] {
  const { pattern, limit, fault } = syntaxes[syntax]
  const length = Buffer.byteLength(text) > limit ? [`must be no more than ${limit} bytes`] : []
  return new RegExp(`^(?:${pattern})$`).test(text) ? length : [...length, fault]
}

/** Faults of the name of a container port (an RFC 6335 service name). */
export function portNameFaults(name: string): string[] {
  const faults: string[] = []
  if (name.length > 15) faults.push('must be no more than 15 characters')
  if (!/^[-a-z0-9]+$/.test(name)) faults.push('must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)')
  if (!/[a-z]/.test(name)) faults.push('must contain at least one letter (a-z)')
  if (name.includes('--')) faults.push('must not contain consecutive hyphens')
  if (/^-|-$/.test(name)) faults.push('must not begin or end with a hyphen')
  return faults
}

/** Checks an object's name, labels and annotations. */
export function validateMeta(meta: ObjectMeta, resource: Resource, errors: FieldErrors): void {
  if (!meta.name) errors.required('metadata.name', 'name or generateName is required')
  else errors.checkSyntax('metadata.name', meta.name, resource.nameRule)
  errors.checkLabels('metadata.labels', meta.labels)
  // The API compares annotation keys without regard to case.
  for (const key of Object.keys(meta.annotations ?? {})) errors.checkKey('metadata.annotations', key.toLowerCase())
}
