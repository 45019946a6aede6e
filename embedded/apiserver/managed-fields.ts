import { isObject, type Json, type JsonObject, sameJson } from './json.ts'
import { applyKeys, type FieldType, isAtomic, type Schema, sets } from './schema.ts'

export interface ManagedFieldsEntry {
  manager: string
  operation: 'Apply' | 'Update'
  apiVersion: string
  time: string
  fieldsType: 'FieldsV1'
  fieldsV1: FieldSet
  subresource?: string
}

export interface Author {
  manager: string
  time: string
  subresource?: string
}

// Set by the server, or part of the object's identity: never owned by a field manager.
const unowned = ['f:name', 'f:namespace', 'f:uid', 'f:resourceVersion', 'f:generation', 'f:creationTimestamp'].concat([
  'f:deletionTimestamp',
  'f:deletionGracePeriodSeconds',
  'f:managedFields',
  'f:selfLink',
  'f:generateName',
])

/** The paths of a set that a field manager can own. */
export function ownable(set: FieldSet): FieldSet {
  const { 'f:apiVersion': _version, 'f:kind': _kind, 'f:metadata': metadata, ...rest } = set
  if (!metadata) return rest
  const own = Object.fromEntries(Object.entries(metadata).filter(([path]) => !unowned.includes(path)))
  return Object.keys(own).length > 0 ? { 'f:metadata': own, ...rest } : rest
}

export function entriesOf(object: JsonObject | undefined): ManagedFieldsEntry[] {
  const metadata = object?.metadata
  const entries = isObject(metadata) ? metadata.managedFields : undefined
  if (!Array.isArray(entries)) return []
  // Entries from clients are kept unchanged; an entry without these fields owns nothing.
  return (entries as unknown as Partial<ManagedFieldsEntry>[]).flatMap((entry) =>
    entry.manager !== undefined && entry.fieldsV1 ? [entry as ManagedFieldsEntry] : [],
  )
}

/** Sets the owners of an object's fields; an empty list leaves no trace. */
export function withEntries(object: JsonObject, entries: readonly ManagedFieldsEntry[]): JsonObject {
  const { managedFields: _old, ...metadata } = isObject(object.metadata) ? object.metadata : {}
  const kept = entries.filter((entry) => Object.keys(entry.fieldsV1).length > 0)
  if (kept.length === 0) return { ...object, metadata }
  return { ...object, metadata: { ...metadata, managedFields: kept as unknown as Json } }
}

/**
 * Records the owner of the fields that a create, update or patch changed: the author takes them over from all other
 * managers.
 */
export function trackUpdate(
  schema: Schema,
  typeName: string,
  old: JsonObject | undefined,
  next: JsonObject,
  author: Author,
): JsonObject {
  const type = { is: 'object', name: typeName } as const
  const apiVersion = String(next.apiVersion)
  const changed = ownable(changedFields(schema, old, next, type) ?? {})
  const before = entriesOf(next)
  if (Object.keys(changed).length === 0) return withEntries(next, before)
  const gained = intersection(changed, ownable(fieldsOf(schema, next, type))) ?? {}
  const isAuthor = (entry: ManagedFieldsEntry): boolean =>
    entry.operation === 'Update' && entry.manager === author.manager && entry.subresource === author.subresource
  const entries = before.map((entry) => {
    const fieldsV1 = difference(entry.fieldsV1, changed) ?? {}
    if (!isAuthor(entry)) return { ...entry, fieldsV1 }
    return { ...entry, time: author.time, fieldsV1: union(fieldsV1, gained) }
  })
  if (!before.some(isAuthor))
    entries.push({ ...author, operation: 'Update', apiVersion, fieldsType: 'FieldsV1', fieldsV1: gained })
  return withEntries(next, entries)
}

/** True if the same managers own the same fields; times are ignored. */
export function sameOwners(a: readonly ManagedFieldsEntry[], b: readonly ManagedFieldsEntry[]): boolean {
  const timeless = (entries: readonly ManagedFieldsEntry[]) => entries.map((entry) => ({ ...entry, time: '' }))
  return sameJson(timeless(a), timeless(b))
}

/**
 * A set of field paths as `managedFields` writes it (FieldsV1): `f:name` for fields, `k:{…}` for list items by key,
 * `v:…` for members of sets; `.` marks a list item that is itself owned. A leaf is an empty object.
 */
export interface FieldSet {
  [path: string]: FieldSet
}

/** The value that a path element of a FieldSet refers to. */
export interface PathElement {
  path: string
  value: Json
  /** The type of the value; undefined for a leaf. */
  type: FieldType | undefined
}

/** The children of a value that are owned one by one; undefined when the value is owned as a whole. */
export function pathElementsOf(
  schema: Schema,
  value: Json,
  type: FieldType | undefined,
  field: string,
): PathElement[] | undefined {
  if (isObject(value)) {
    const typeName = type?.is === 'object' ? type.name : undefined
    if (type === undefined || type.is === 'any' || isAtomic(field, typeName)) return undefined
    return Object.entries(value).map(([key, child]) => ({
      path: `f:${key}`,
      value: child ?? null,
      type: typeName ? schema.get(typeName)?.get(key) : type.is === 'map' ? type.values : undefined,
    }))
  }
  if (!Array.isArray(value)) return undefined
  const items = type?.is === 'array' ? type.items : undefined
  if (sets.has(field)) return value.map((item) => ({ path: `v:${JSON.stringify(item)}`, value: item, type: undefined }))
  const keys = applyKeys(field)
  if (!keys) return undefined
  return value.map((item) => ({ path: itemPath(item, keys), value: item, type: items }))
}

function itemPath(item: Json, keys: readonly string[]): string {
  const identity: JsonObject = {}
  // The key of a port includes its protocol, which defaults to TCP.
  for (const key of [...keys].sort())
    identity[key] = (isObject(item) ? item[key] : undefined) ?? (key === 'protocol' ? 'TCP' : null)
  return `k:${JSON.stringify(identity)}`
}

/** The name under which schema.ts knows a field: `V1PodSpec.containers`. */
export function fieldName(parent: FieldType | undefined, path: string): string {
  return parent?.is === 'object' ? `${parent.name}.${path.slice(2)}` : ''
}

/** Every owned path of a value. */
export function fieldsOf(schema: Schema, value: Json, type: FieldType | undefined, field = ''): FieldSet {
  const steps = pathElementsOf(schema, value, type, field)
  if (!steps) return {}
  const result: FieldSet = {}
  for (const step of steps) {
    const child = fieldsOf(schema, step.value, step.type, fieldName(type, step.path))
    result[step.path] = step.path.startsWith('k:') ? { '.': {}, ...child } : child
  }
  return result
}

/** The paths at which two values differ (also those that only one of them has). */
export function changedFields(
  schema: Schema,
  before: Json | undefined,
  after: Json | undefined,
  type: FieldType | undefined,
  field = '',
): FieldSet | undefined {
  if (sameJson(before, after)) return undefined
  const old = before === undefined ? [] : pathElementsOf(schema, before, type, field)
  const now = after === undefined ? [] : pathElementsOf(schema, after, type, field)
  if (!old || !now || (before === undefined && now.length === 0)) return {}
  const result: FieldSet = {}
  const beforeBy = new Map(old.map((step) => [step.path, step]))
  const afterBy = new Map(now.map((step) => [step.path, step]))
  for (const path of new Set([...beforeBy.keys(), ...afterBy.keys()])) {
    const [one, two] = [beforeBy.get(path), afterBy.get(path)]
    const changed = changedFields(schema, one?.value, two?.value, (two ?? one)?.type, fieldName(type, path))
    if (changed) result[path] = path.startsWith('k:') && (!one || !two) ? { '.': {}, ...changed } : changed
  }
  return result
}

function isLeaf(set: FieldSet): boolean {
  return Object.keys(set).length === 0
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  const result: FieldSet = { ...a }
  for (const [path, child] of Object.entries(b)) result[path] = union(result[path] ?? {}, child)
  return result
}

/** The paths of `a` that `b` doesn't have; undefined when none is left. */
export function difference(a: FieldSet, b: FieldSet | undefined): FieldSet | undefined {
  if (!b) return a
  if (isLeaf(a) || isLeaf(b)) return undefined
  const result: FieldSet = {}
  for (const [path, child] of Object.entries(a)) {
    const left = difference(child, b[path])
    if (left) result[path] = left
  }
  return isLeaf(result) ? undefined : result
}

/** The paths that both have; undefined when there is none. */
export function intersection(a: FieldSet, b: FieldSet): FieldSet | undefined {
  if (isLeaf(a) || isLeaf(b)) return isLeaf(a) ? a : b
  const result: FieldSet = {}
  for (const [path, child] of Object.entries(a)) {
    const other = b[path]
    const both = other && intersection(child, other)
    if (both) result[path] = both
  }
  return isLeaf(result) ? undefined : result
}

/** Paths in the format of conflict messages: `.spec.containers[name="nginx"].image`. */
export function leafPaths(set: FieldSet, prefix = ''): string[] {
  const entries = Object.entries(set).filter(([path]) => path !== '.')
  if (entries.length === 0) return [prefix]
  return entries.flatMap(([path, child]) => leafPaths(child, prefix + readable(path)))
}

function readable(path: string): string {
  if (path.startsWith('f:')) return `.${path.slice(2)}`
  const value: Json = JSON.parse(path.slice(2))
  if (!isObject(value)) return `[=${JSON.stringify(value)}]`
  return `[${Object.entries(value)
    .map(([key, item]) => `${key}=${JSON.stringify(item)}`)
    .join(',')}]`
}
