import { isObject, type Json, type JsonObject, sameJson } from './json.ts'
import { applyKeys, type FieldType, isAtomic, type Schema, sets } from './schema.ts'

/** A set of field paths as `metadata.managedFields` writes it: one level per path element, a leaf is an empty object. */
export interface FieldsV1 {
  [element: string]: FieldsV1
}

export interface ManagedFieldsEntry {
  manager: string
  operation: 'Apply' | 'Update'
  apiVersion: string
  time: string
  fieldsType: 'FieldsV1'
  fieldsV1: FieldsV1
  subresource?: string
}

export interface Author {
  manager: string
  time: string
  subresource?: string
}

/**
 * The values of an object that have an owner each, by their path. A path is a list of FieldsV1's elements: `f:name` for
 * fields, `k:{…}` for list items by key, `v:…` for members of sets; `.` marks that a list item exists.
 */
export type Leaves = ReadonlyMap<string, Json>

const separator = '\n'

export function elementsOf(path: string): string[] {
  return path.split(separator)
}

// Set by the server, or part of the object's identity: never owned by a field manager.
const identity = ['name', 'namespace', 'uid', 'resourceVersion', 'generation', 'creationTimestamp', 'generateName']
const byServer = ['deletionTimestamp', 'deletionGracePeriodSeconds', 'managedFields', 'selfLink']

/** The values of an object of a type that field managers can own. */
export function leavesOf(schema: Schema, object: JsonObject | undefined, typeName: string): Leaves {
  const { apiVersion: _version, kind: _kind, metadata, ...content } = object ?? {}
  const own = Object.entries(isObject(metadata) ? metadata : {}).filter(
    ([field]) => !identity.includes(field) && !byServer.includes(field),
  )
  const leaves = new Map<string, Json>()
  const ownable = { ...content, ...(own.length > 0 && { metadata: Object.fromEntries(own) }) }
  collect(schema, leaves, [], ownable, { is: 'object', name: typeName }, '')
  return leaves
}

function collect(
  schema: Schema,
  leaves: Map<string, Json>,
  path: string[],
  value: Json,
  type: FieldType | undefined,
  field: string,
): void {
  const children = childrenOf(schema, value, type, field)
  if (!children || (children.length === 0 && path.length > 0)) leaves.set(path.join(separator), value)
  for (const { element, ...child } of children ?? []) {
    if (element.startsWith('k:')) leaves.set([...path, element, '.'].join(separator), null)
    collect(schema, leaves, [...path, element], child.value, child.type, child.field)
  }
}

/** The children of a value that are owned one by one; undefined when the value is owned as a whole. */
function childrenOf(schema: Schema, value: Json, type: FieldType | undefined, field: string) {
  if (isObject(value)) {
    const typeName = type?.is === 'object' ? type.name : undefined
    if (type === undefined || type.is === 'any' || isAtomic(field, typeName)) return undefined
    return Object.entries(value).map(([key, child = null]) => ({
      element: `f:${key}`,
      value: child,
      type: typeName ? schema.get(typeName)?.get(key) : type.is === 'map' ? type.values : undefined,
      field: `${typeName}.${key}`,
    }))
  }
  if (!Array.isArray(value)) return undefined
  if (sets.has(field)) {
    return value.map((item) => ({ element: `v:${JSON.stringify(item)}`, value: item, type: undefined, field: '' }))
  }
  const keys = applyKeys(field)
  const items = type?.is === 'array' ? type.items : undefined
  return keys && value.map((item) => ({ element: `k:${itemKey(item, keys)}`, value: item, type: items, field: '' }))
}

/** The text that identifies a list item by the values of its keys. */
export function itemKey(item: Json, keys: readonly string[]): string {
  // The key of a port includes its protocol, which defaults to TCP.
  const valueAtKey = (key: string) => (isObject(item) ? item[key] : undefined) ?? (key === 'protocol' ? 'TCP' : null)
  return JSON.stringify(Object.fromEntries([...keys].sort().map((key) => [key, valueAtKey(key)])))
}

function toFieldsV1(paths: Iterable<string>): FieldsV1 {
  const root: FieldsV1 = {}
  for (const path of paths) {
    let level = root
    for (const element of elementsOf(path)) {
      level[element] ??= {}
      level = level[element]
    }
  }
  return root
}

/** The paths that an entry owns. */
export function pathsOf({ fieldsV1 }: ManagedFieldsEntry): string[] {
  const paths = (fields: FieldsV1, prefix: string): string[] =>
    Object.entries(fields).flatMap(([element, children]) => {
      const isLeaf = Object.keys(children).length === 0
      return isLeaf ? [prefix + element] : paths(children, prefix + element + separator)
    })
  return paths(fieldsV1, '')
}

/** The entry with other paths. */
export function withPaths<T extends Partial<ManagedFieldsEntry>>(entry: T, paths: Iterable<string>) {
  return { ...entry, fieldsType: 'FieldsV1' as const, fieldsV1: toFieldsV1(paths) }
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

/** Sets the owners of an object's fields; entries that own nothing are left out. */
export function withEntries(object: JsonObject, entries: readonly ManagedFieldsEntry[]): JsonObject {
  const { managedFields: _old, ...metadata } = isObject(object.metadata) ? object.metadata : {}
  const kept = entries.filter((entry) => Object.keys(entry.fieldsV1).length > 0)
  if (kept.length === 0) return { ...object, metadata }
  return { ...object, metadata: { ...metadata, managedFields: kept as unknown as Json } }
}

export function isBy(entry: ManagedFieldsEntry, operation: string, author: Author): boolean {
  return entry.operation === operation && entry.manager === author.manager && entry.subresource === author.subresource
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
  const [before, after] = [leavesOf(schema, old, typeName), leavesOf(schema, next, typeName)]
  const paths = new Set([...before.keys(), ...after.keys()])
  const changed = new Set([...paths].filter((path) => !sameJson(before.get(path), after.get(path))))
  const entries = entriesOf(next)
  if (changed.size === 0) return withEntries(next, entries)
  const own = entries.find((entry) => isBy(entry, 'Update', author))
  const left = (entry: ManagedFieldsEntry) => pathsOf(entry).filter((path) => !changed.has(path))
  const gained = [...changed].filter((path) => after.has(path))
  const mine = { ...author, operation: 'Update' as const, apiVersion: String(next.apiVersion) }
  const updated = withPaths(mine, [...(own ? left(own) : []), ...gained])
  const result = entries.map((entry) => (entry === own ? updated : withPaths(entry, left(entry))))
  return withEntries(next, own ? result : [...result, updated])
}
