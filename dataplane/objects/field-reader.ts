import { acceptedFamily, canonicalAddress, isCidr, unmapped } from '../ip-address.ts'
import { Refusal } from '../refusal.ts'

/** An error in one field of an object. */
export interface InvalidField {
  object: string
  field: string
  message: string
}

/** Objects or their fields are invalid; `faults` contains every fault, the message one per line. */
export class InvalidFieldsError extends Refusal {
  readonly faults: InvalidField[]

  constructor(faults: InvalidField[]) {
    super(faults.map((fault) => `${fault.object}: ${fault.field} ${fault.message}`).join('\n'))
    this.name = new.target.name
    this.faults = faults
  }
}

export type UncheckedObject = { [key: string]: unknown }

/** True for a JSON object (not null, not an array). */
export const isObject = (value: unknown): value is UncheckedObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isText = (value: unknown): value is string => typeof value === 'string'
const isFlag = (value: unknown): value is boolean => typeof value === 'boolean'

const quote = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return `"${text.length > 60 ? `${text.slice(0, 57)}...` : text}"`
}

/** One for all objects without labels: an object without a prototype takes V8 over 200 bytes. */
const NO_LABELS: Record<string, string> = Object.freeze(Object.create(null))

/**
 * Reads typed fields of one untrusted JSON object, or of one inside it. An invalid value does not
 * throw: it is added to `faults` with the object's name and the field's path, and counts as absent,
 * so that one pass finds every fault.
 */
export class FieldReader {
  readonly raw: UncheckedObject
  readonly #object: string
  readonly #faults: InvalidField[]
  /**
   * Where `raw` is: the reader of what contains it, and the field there, from which paths are made
   * only for faults.
   */
  readonly #parent: FieldReader | undefined
  readonly #field: string

  /** @param object the name of the object in faults */
  constructor(
    raw: UncheckedObject,
    object: string,
    faults: InvalidField[],
    parent?: FieldReader,
    field = '',
  ) {
    this.raw = raw
    this.#object = object
    this.#faults = faults
    this.#parent = parent
    this.#field = field
  }

  #pathOf(field: string): string {
    return this.#parent ? `${this.#parent.#pathOf(this.#field)}.${field}` : field
  }

  fault(field: string, message: string): undefined {
    this.#faults.push({ object: this.#object, field: this.#pathOf(field), message })
  }

  /**
   * The value of a field if there is one and it is valid; `wanted` ends the sentence about one that
   * is not.
   */
  #read<Value>(
    field: string,
    isValid: (value: unknown) => value is Value,
    wanted: string,
  ): Value | undefined {
    const value = this.raw[field]
    if (value === undefined || value === null || isValid(value)) return value ?? undefined
    return this.fault(field, `${quote(value)} is ${wanted}`)
  }

  child(field: string): FieldReader {
    return this.#inside(this.#read(field, isObject, 'not an object') ?? {}, field)
  }

  /** The objects of a list. */
  children(field: string): FieldReader[] {
    return this.list(field).map((item, index) => {
      const at = `${field}[${index}]`
      if (!isObject(item) && item !== undefined && item !== null)
        this.fault(at, `${quote(item)} is not an object`)
      return this.#inside(isObject(item) ? item : {}, at)
    })
  }

  #inside(raw: UncheckedObject, field: string): FieldReader {
    return new FieldReader(raw, this.#object, this.#faults, this, field)
  }

  list(field: string): unknown[] {
    return this.#read(field, Array.isArray, 'not a list') ?? []
  }

  text(field: string): string | undefined {
    return this.#read(field, isText, 'not a text')
  }

  flag(field: string): boolean | undefined {
    return this.#read(field, isFlag, 'neither true nor false')
  }

  integer(field: string, low: number, high: number): number | undefined {
    const isInRange = (value: unknown): value is number =>
      typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high
    return this.#read(field, isInRange, `not a whole number from ${low} to ${high}`)
  }

  choice<const T extends string, F extends T | undefined>(
    field: string,
    choices: readonly T[],
    fallback: F,
  ): T | F {
    if (this.raw[field] === '') return fallback
    const isChoice = (value: unknown): value is T => choices.some((choice) => choice === value)
    return this.#read(field, isChoice, `none of ${choices.join(', ')}`) ?? fallback
  }

  /**
   * A name that is used in rule comments and chain names: only letters, digits, `-` and `.`, as the
   * API server requires. Empty if it is absent or invalid.
   */
  name(field: string, required = true): string {
    const value = this.raw[field]
    if (typeof value === 'string' && /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(value))
      return value
    const isAbsent = value === undefined || value === null || value === ''
    if (!isAbsent) this.fault(field, `${quote(value)} is not a Kubernetes name`)
    else if (required) this.fault(field, 'is missing')
    return ''
  }

  /** An address in its canonical spelling; undefined if it is absent or empty. */
  address(field: string, required = false): string | undefined {
    const value = this.raw[field] ?? ''
    return value === '' && !required ? undefined : this.#asAddress(value, field)
  }

  /** The addresses of a list. */
  addresses(field: string, ignored = ''): string[] {
    const addresses = this.list(field).flatMap((item, index) => {
      return item === ignored ? [] : (this.#asAddress(item, `${field}[${index}]`) ?? [])
    })
    // flatMap reserves 17 places for one address (V8); a copy has one, for each of 100,000
    // endpoints.
    return addresses.slice()
  }

  #asAddress(value: unknown, field: string): string | undefined {
    if (typeof value === 'string' && acceptedFamily(value)) return canonicalAddress(unmapped(value))
    return this.fault(field, `${quote(value)} is not an IP address`)
  }

  /**
   * The ranges of a list, with their addresses in canonical spelling and their host bits; `word`
   * may be among them.
   */
  cidrs(field: string, word?: string): string[] {
    return this.list(field).flatMap((item, index) => {
      return item === word && word !== undefined
        ? word
        : (this.cidr(item, `${field}[${index}]`) ?? [])
    })
  }

  /** One range. */
  cidr(value: unknown, field: string): string | undefined {
    const trimmed = typeof value === 'string' ? value.trim() : ''
    const [address = '', length] = trimmed.split('/')
    if (isCidr(trimmed)) return unmapped(`${canonicalAddress(address)}/${Number(length)}`)
    return this.fault(field, `${quote(value)} is not an address range such as "10.0.0.0/8"`)
  }

  labels(field: string): Record<string, string> {
    const entries = Object.entries(this.child(field).raw)
    if (entries.length === 0) return NO_LABELS
    const labels: Record<string, string> = Object.create(null)
    for (const [key, text] of entries) {
      if (typeof text === 'string') labels[key] = text
      else this.fault(`${field}[${key}]`, `${quote(text)} is not a text`)
    }
    return labels
  }
}
