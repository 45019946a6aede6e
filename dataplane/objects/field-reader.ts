import { acceptedFamily, canonicalAddress, isCidr } from '../ip-address.ts'

/** An error in one field of an object. */
export interface Fault {
  object: string
  field: string
  message: string
}

/** Objects or their fields are invalid; `faults` contains every fault, the message one per line. */
export class FaultsError extends Error {
  readonly faults: Fault[]

  constructor(faults: Fault[]) {
    super(faults.map((fault) => `${fault.object}: ${fault.field} ${fault.message}`).join('\n'))
    this.name = new.target.name
    this.faults = faults
  }
}

export type JsonObject = { [key: string]: unknown }

/** True for a JSON object (not null, not an array). */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const quote = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return `"${text.length > 60 ? `${text.slice(0, 57)}...` : text}"`
}

/**
 * Reads typed fields from one untrusted JSON object. An invalid value does not throw: it is added to `faults` with the
 * object's name and the field's path, and a default is returned, so that one pass finds every fault.
 */
export class FieldReader {
  readonly object: string
  readonly faults: Fault[]

  constructor(object: string, faults: Fault[]) {
    this.object = object
    this.faults = faults
  }

  fault(field: string, message: string): void {
    this.faults.push({ object: this.object, field, message })
  }

  child(value: unknown, field: string): JsonObject {
    if (value === undefined || value === null) return {}
    if (isObject(value)) return value
    this.fault(field, `${quote(value)} is not an object`)
    return {}
  }

  list(value: unknown, field: string): unknown[] {
    if (value === undefined || value === null) return []
    if (Array.isArray(value)) return value
    this.fault(field, `${quote(value)} is not a list`)
    return []
  }

  text(value: unknown, field: string): string | undefined {
    if (value === undefined || value === null) return undefined
    if (typeof value === 'string') return value
    this.fault(field, `${quote(value)} is not a text`)
    return undefined
  }

  flag(value: unknown, field: string): boolean | undefined {
    if (value === undefined || value === null) return undefined
    if (typeof value === 'boolean') return value
    this.fault(field, `${quote(value)} is neither true nor false`)
    return undefined
  }

  /**
   * A name that is used in rule comments and chain names: only letters, digits, `-` and `.`, as the API server
   * requires.
   */
  name(value: unknown, field: string, required = true): string {
    if (typeof value === 'string' && /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(value)) return value
    if (value === undefined || value === null || value === '') {
      if (required) this.fault(field, 'is missing')
      return ''
    }
    this.fault(field, `${quote(value)} is not a Kubernetes name`)
    return ''
  }

  integer(value: unknown, field: string, low: number, high: number): number | undefined {
    if (value === undefined || value === null) return undefined
    if (typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high) return value
    this.fault(field, `${quote(value)} is not a whole number from ${low} to ${high}`)
    return undefined
  }

  choice<const T extends string, F extends T | undefined>(
    value: unknown,
    field: string,
    choices: readonly T[],
    fallback: F,
  ): T | F {
    if (value === undefined || value === null || value === '') return fallback
    const found = choices.find((choice) => choice === value)
    if (found !== undefined) return found
    this.fault(field, `${quote(value)} is none of ${choices.join(', ')}`)
    return fallback
  }

  /** An address in its canonical spelling. */
  address(value: unknown, field: string): string | undefined {
    if (typeof value === 'string' && acceptedFamily(value)) return canonicalAddress(value)
    this.fault(field, `${quote(value)} is not an IP address`)
    return undefined
  }

  /** A range with its address in canonical spelling; host bits are kept. */
  cidr(value: unknown, field: string): string | undefined {
    const trimmed = typeof value === 'string' ? value.trim() : ''
    const [address = '', length] = trimmed.split('/')
    if (isCidr(trimmed)) return `${canonicalAddress(address)}/${Number(length)}`
    this.fault(field, `${quote(value)} is not an address range such as "10.0.0.0/8"`)
    return undefined
  }

  labels(value: unknown, field: string): Record<string, string> {
    const labels: Record<string, string> = Object.create(null)
    for (const [key, text] of Object.entries(this.child(value, field))) {
      if (typeof text === 'string') labels[key] = text
      else this.fault(`${field}[${key}]`, `${quote(text)} is not a text`)
    }
    return labels
  }
}
