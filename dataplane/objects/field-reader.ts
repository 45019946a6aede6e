import ipaddr from 'ipaddr.js'

/** One thing wrong with one object: which object, which field, and what is the matter with its value. */
export interface Fault {
  object: string
  field: string
  message: string
}

export type JsonObject = { [key: string]: unknown }

/** True for a JSON object (not null, not an array). */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const quote = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return `"${text.length > 60 ? `${text.slice(0, 57)}...` : text}"`
}

/** Leading zeros are decimal to kube-proxy (Go's net.ParseIP before 1.17, which k8s.io/utils/net keeps as ParseIPSloppy). */
const OCTET = '0{0,8}(?:25[0-5]|2[0-4]\\d|1\\d\\d|\\d?\\d)'
const IPV4 = new RegExp(`^(?:${OCTET}\\.){3}${OCTET}$`)

/** The family of an address as kube-proxy accepts it (dotted quad, or IPv6 without a zone), or undefined. */
export function addressFamily(text: string): 'ipv4' | 'ipv6' | undefined {
  if (IPV4.test(text)) return 'ipv4'
  return text.includes(':') && !text.includes('%') && ipaddr.IPv6.isValid(text) ? 'ipv6' : undefined
}

/** An address that {@link addressFamily} accepts in its one canonical spelling: no leading zeros, RFC 5952. */
export const canonicalAddress = (address: string): string =>
  address.includes(':')
    ? ipaddr.IPv6.parse(address).toRFC5952String()
    : address
        .split('.')
        .map((octet) => String(Number(octet)))
        .join('.')

/** True for `address/length` with a length that fits the family. */
export function isCidr(text: string): boolean {
  const match = /^([^/]+)\/0{0,8}(\d{1,3})$/.exec(text)
  if (!match) return false
  const family = addressFamily(match[1] ?? '')
  return family !== undefined && Number(match[2]) <= (family === 'ipv4' ? 32 : 128)
}

/**
 * Reads typed fields out of one untrusted JSON object. A wrong value never throws: it is written to `faults` under the
 * object's name and the field's path, and a harmless default is returned, so that one pass finds every fault.
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

  /** A name that goes into rule comments and chain names: letters, digits, `-`, `.` only, as the API server demands. */
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

  choice<T extends string>(value: unknown, field: string, choices: readonly T[], fallback: T): T {
    if (value === undefined || value === null || value === '') return fallback
    const found = choices.find((choice) => choice === value)
    if (found !== undefined) return found
    this.fault(field, `${quote(value)} is none of ${choices.join(', ')}`)
    return fallback
  }

  /** An address in its canonical spelling. */
  address(value: unknown, field: string): string | undefined {
    if (typeof value === 'string' && addressFamily(value)) return canonicalAddress(value)
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
