import {
  type FieldErrors,
  keyFaults,
  portFaults,
  type Syntax,
  syntaxFaults,
} from './field-errors.ts'
import { fill, isAbsent, isJsonObject } from './json.ts'

/**
 * What the API fills in and checks before it stores an object of one kind: mostly data, values and
 * checks by the pattern of the fields that they are for. Functions may change `object`, never
 * `old`, its state before an update.
 */
export interface Strategy<T> {
  defaults?: Defaults
  /** Fills in what depends on several fields or on the old state. */
  prepare?(object: T, old?: T): void
  rules?: FieldRules
  /** The paths of fields that an update can't change. */
  fixed?: readonly string[]
  /** Finds other faults of an update. */
  validateUpdate?(object: T, old: T, errors: FieldErrors): void
}

/** A field of an object with its path, as messages name it. */
interface FieldPlace {
  field: string
  value: unknown
}

/**
 * Finds the faults of the fields that one pattern names. Absent fields have none, unless they are
 * `required`.
 */
export type FieldCheck = (errors: FieldErrors, places: readonly FieldPlace[]) => void

/** Checks by pattern. */
export type FieldRules = Readonly<Record<string, FieldCheck | readonly FieldCheck[]>>

/**
 * The values of an object's fields that are left open, by the pattern of the object; a function
 * gets the object first.
 */
export type Defaults = Readonly<
  Record<string, Record<string, unknown> | ((object: never) => object)>
>

/**
 * The fields that a pattern such as `containers|initContainers[].ports[].name` names: `[]` means
 * every item, `|` separates names. A field may be absent, the objects around it may not.
 */
export function fieldsAt(object: unknown, pattern: string, path = ''): FieldPlace[] {
  if (pattern === '') return [{ field: path, value: object }]
  if (!isJsonObject(object)) return []
  const end = pattern.indexOf('.')
  const [step, rest] = end < 0 ? [pattern, ''] : [pattern.slice(0, end), pattern.slice(end + 1)]
  const isList = step.endsWith('[]')
  return (isList ? step.slice(0, -2) : step).split('|').flatMap((name) => {
    const [field, value] = [path ? `${path}.${name}` : name, object[name]]
    if (!isList) return fieldsAt(value, rest, field)
    return Array.isArray(value)
      ? value.flatMap((item, index) => fieldsAt(item, rest, `${field}[${index}]`))
      : []
  })
}

/** The same defaults or rules for an object at a path of another one. */
export function under<T extends Defaults | FieldRules>(path: string, table: T): T {
  const entries = Object.entries(table).map(([pattern, entry]) => [
    pattern ? `${path}.${pattern}` : path,
    entry,
  ])
  return Object.fromEntries(entries)
}

/** Fills in the fields of an object that are left open. */
export function applyDefaults(object: object, defaults: Defaults): void {
  for (const [pattern, values] of Object.entries(defaults))
    for (const { value } of fieldsAt(object, pattern))
      if (isJsonObject(value))
        fill(value, typeof values === 'function' ? values(value as never) : values)
}

/** Finds all faults of an object. */
export function applyRules(object: object, rules: FieldRules, errors: FieldErrors): void {
  for (const [pattern, checks] of Object.entries(rules)) {
    const places = fieldsAt(object, pattern)
    if (places.length > 0) for (const check of [checks].flat()) check(errors, places)
  }
}

/** Looks at each field that is present. */
const each =
  <T>(look: (value: T, field: string, errors: FieldErrors) => void): FieldCheck =>
  (errors, places) => {
    for (const { field, value } of places) if (!isAbsent(value)) look(value as T, field, errors)
  }

/** Fields whose values have faults, in Kubernetes' words. */
const faults = <T>(faultsOf: (value: T) => readonly string[]): FieldCheck =>
  each<T>((value, field, errors) => errors.invalid(field, value, ...faultsOf(value)))

/** No field may have such a value. */
const not = <T>(isWrong: (value: T) => boolean, fault: string): FieldCheck =>
  faults<T>((value) => (isWrong(value) ? [fault] : []))

/** The field must be present, and a list must not be empty. */
const required: FieldCheck = (errors, places) => {
  for (const { field, value } of places)
    if (isAbsent(value) || (Array.isArray(value) && value.length === 0)) errors.required(field)
}

const oneOf = (...supported: string[]): FieldCheck =>
  each<string>((value, field, errors) => {
    const choices = supported.toSorted().map((choice) => JSON.stringify(choice))
    const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${choices.join(', ')}`
    if (!supported.includes(value)) errors.add('FieldValueNotSupported', field, message)
  })

const syntax = (name: Syntax): FieldCheck => faults<string>((text) => syntaxFaults(text, name))

/** No two fields have the same value, or the same part of it: all fields, or those of one scope. */
const unique =
  <T>(
    partOf: (value: T) => unknown = (value) => value,
    scopeOf = (_field: string) => '',
  ): FieldCheck =>
  (errors, places) => {
    const seen = new Set<string>()
    for (const { field, value } of places) {
      const part = isAbsent(value) ? undefined : partOf(value as T)
      if (part === undefined) continue
      const key = `${scopeOf(field)} ${part}`
      if (seen.has(key))
        errors.add('FieldValueDuplicate', field, `Duplicate value: ${JSON.stringify(part)}`)
      seen.add(key)
    }
  }

/** The number or the name of a port. */
const port = faults(portFaults)

const notNegative = not(
  (value) => typeof value === 'number' && value < 0,
  'must be greater than or equal to 0',
)

/** Keys and values of labels. */
const labels = each<Record<string, string>>((own, field, errors) => {
  for (const [key, value] of Object.entries(own)) {
    errors.invalid(field, key, ...keyFaults(key))
    errors.invalid(field, value, ...syntaxFaults(value, 'labelValue'))
  }
})

/**
 * Of all keys and values of an object's annotations (TotalAnnotationSizeLimitB in
 * apimachinery/pkg/api/validation).
 */
const MOST_ANNOTATION_BYTES = 262_144

/** Keys of annotations, and the size of all. */
const annotations = each<Record<string, string>>((own, field, errors) => {
  // The API compares these keys without regard to case.
  for (const key of Object.keys(own)) errors.invalid(field, key, ...keyFaults(key.toLowerCase()))
  const bytes = Buffer.byteLength(Object.entries(own).flat().join(''))
  if (bytes > MOST_ANNOTATION_BYTES) errors.tooLong(field, MOST_ANNOTATION_BYTES)
})

/** What rules consist of. */
export const check = {
  annotations,
  each,
  labels,
  not,
  notNegative,
  oneOf,
  port,
  required,
  syntax,
  unique,
}

/** The rules for the metadata of every kind. */
export const metadataRules = (nameSyntax: Syntax): FieldRules => ({
  'metadata.name': [required, syntax(nameSyntax)],
  'metadata.labels': labels,
  'metadata.annotations': annotations,
})
