import {
  changedFields,
  difference,
  type FieldSet,
  fieldName,
  fieldsOf,
  intersection,
  leafPaths,
  pathElementsOf,
  union,
} from './field-set.ts'
import { isObject, type Json, type JsonObject, sameJson } from './json.ts'
import { sets } from './list-keys.ts'
import { type Author, entriesOf, type ManagedFieldsEntry, ownable, sameOwners, withEntries } from './managed-fields.ts'
import type { FieldType, Schema } from './schema.ts'
import { StatusError } from './status-error.ts'

export interface ApplyRequest {
  schema: Schema
  typeName: string
  live: JsonObject | undefined
  config: JsonObject
  author: Author
  force: boolean
}

/**
 * Server-side apply: the configuration is merged into the live object, fields that this manager applied before and no
 * longer names are removed unless another manager owns them too. Throws 409 naming each field of another manager whose value
 * would change, unless forced.
 */
export function serverSideApply({ schema, typeName, live, config, author, force }: ApplyRequest): JsonObject {
  const type: FieldType = { is: 'object', name: typeName }
  const applied = ownable(fieldsOf(schema, config, type))
  const merged = merge(schema, live, config, type, '') as JsonObject
  const before = entriesOf(live)
  const isOwn = (entry: ManagedFieldsEntry): boolean =>
    entry.operation === 'Apply' && entry.manager === author.manager && entry.subresource === author.subresource
  const own = before.find(isOwn)
  const changed = live ? (changedFields(schema, live, merged, type) ?? {}) : {}
  const others = before.filter((entry) => !isOwn(entry))
  const disputed = Object.keys(changed).length === 0 ? [] : others.map((entry) => disputedBy(entry, applied, changed))
  if (!force) refuseConflicts(others, disputed)
  const left = others.map((entry, index) => {
    const lost = disputed[index]
    return lost ? { ...entry, fieldsV1: difference(entry.fieldsV1, lost) ?? {} } : entry
  })
  const owned = left.reduce<FieldSet>((all, entry) => union(all, entry.fieldsV1), {})
  const dropped = own && difference(own.fieldsV1, applied)
  const result = (dropped ? remove(schema, merged, dropped, owned, type, '') : merged) as JsonObject
  const entry: ManagedFieldsEntry = {
    ...author,
    operation: 'Apply',
    apiVersion: String(config.apiVersion),
    fieldsType: 'FieldsV1',
    fieldsV1: applied,
  }
  if (own && sameOwners([own], [entry])) entry.time = own.time
  return withEntries(
    result,
    own ? [...before.map((e) => (e === own ? entry : (left[others.indexOf(e)] ?? e)))] : [...left, entry],
  )
}

function disputedBy(entry: ManagedFieldsEntry, applied: FieldSet, changed: FieldSet): FieldSet | undefined {
  const shared = intersection(applied, entry.fieldsV1)
  return shared && Object.keys(entry.fieldsV1).length > 0 ? intersection(shared, changed) : undefined
}

function refuseConflicts(others: readonly ManagedFieldsEntry[], disputed: readonly (FieldSet | undefined)[]): void {
  const conflicts = others.flatMap((entry, index) => {
    const set = disputed[index]
    const fields = set ? leafPaths(set).filter((path) => path !== '') : []
    const status = entry.subresource ? ` with subresource "${entry.subresource}"` : ''
    return fields.map((field) => ({ by: `"${entry.manager}"${status} using ${entry.apiVersion}`, field }))
  })
  const first = conflicts[0]
  if (!first) return
  const lines = conflicts.map(({ by, field }) => `conflict with ${by}: ${field}`)
  const message =
    conflicts.length === 1
      ? `Apply failed with 1 conflict: ${lines[0]}`
      : `Apply failed with ${conflicts.length} conflicts: ${lines.join('\n- ')}`
  throw new StatusError(409, 'Conflict', message, {
    causes: conflicts.map(({ by, field }) => ({
      reason: 'FieldManagerConflict',
      message: `conflict with ${by}`,
      field,
    })),
  })
}

function merge(schema: Schema, live: Json | undefined, config: Json, type: FieldType | undefined, field: string): Json {
  const steps = pathElementsOf(schema, config, type, field)
  if (!steps || live === undefined) return config
  if (isObject(config)) {
    const result: JsonObject = isObject(live) ? { ...live } : {}
    for (const { path, value, type: inner } of steps) {
      const key = path.slice(2)
      result[key] = merge(schema, result[key], value, inner, fieldName(type, path))
    }
    return result
  }
  const current = Array.isArray(live) ? live : []
  if (sets.has(field))
    return [
      ...current,
      ...steps.map(({ value }) => value).filter((value) => !current.some((own) => sameJson(own, value))),
    ]
  const result = [...current]
  const paths = (pathElementsOf(schema, current, type, field) ?? []).map((step) => step.path)
  for (const { path, value, type: inner } of steps) {
    const index = paths.indexOf(path)
    if (index < 0) result.push(value)
    else result[index] = merge(schema, current[index], value, inner, '')
  }
  return result
}

/** Takes out the fields of a set, sparing items of lists in which others own something. */
function remove(
  schema: Schema,
  value: Json,
  gone: FieldSet,
  owned: FieldSet,
  type: FieldType | undefined,
  field: string,
): Json {
  const steps = pathElementsOf(schema, value, type, field)
  if (!steps) return value
  const kept = steps.flatMap((step) => {
    const set = gone[step.path]
    if (!set) return [step]
    const others = owned[step.path]
    const whole = Object.keys(set).length === 0 || '.' in set
    if (whole && !others) return []
    if (Object.keys(set).length === 0) return [step]
    const next = remove(schema, step.value, set, others ?? {}, step.type, fieldName(type, step.path))
    return isObject(next) && Object.keys(next).length === 0 && !others ? [] : [{ ...step, value: next }]
  })
  if (Array.isArray(value)) return kept.map((step) => step.value)
  return Object.fromEntries(kept.map((step) => [step.path.slice(2), step.value]))
}
