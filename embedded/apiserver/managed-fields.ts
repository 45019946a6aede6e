import { changedFields, difference, type FieldSet, fieldsOf, intersection, union } from './field-set.ts'
import { isObject, type Json, type JsonObject, sameJson } from './json.ts'
import type { Schema } from './schema.ts'

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
  // What clients send is kept as they sent it; an entry without these fields owns nothing.
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

/** Notes the owner of what a create, update or patch changed: the author takes these fields from all others. */
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
