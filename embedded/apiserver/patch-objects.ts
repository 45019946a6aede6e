import type { Draft } from './api.ts'
import { type ApiCall, flag, storedResource } from './api-call.ts'
import { type PatchType, readPatch } from './http-messages.ts'
import { isObject, type Json, type JsonObject, sameJson } from './json.ts'
import { sendOne } from './list-objects.ts'
import {
  type Author,
  changedFields,
  difference,
  entriesOf,
  type FieldSet,
  fieldName,
  fieldsOf,
  intersection,
  leafPaths,
  type ManagedFieldsEntry,
  ownable,
  pathElementsOf,
  sameOwners,
  union,
  withEntries,
} from './managed-fields.ts'
import { timestamp } from './object-lifecycle.ts'
import { jsonPatch, mergePatch } from './patches.ts'
import { type FieldType, type Schema, sets } from './schema.ts'
import { present } from './served.ts'
import { badRequest, conflict, invalid, notFound, StatusError } from './status-error.ts'
import type { Stored } from './store.ts'
import { strategicMerge } from './strategic-merge.ts'
import { decoded, isDryRun, managerOf, subresourceOf, writeOptions } from './write-objects.ts'

/** PATCH in its four forms; server-side apply also creates missing objects. */
export async function patchObject(call: ApiCall): Promise<void> {
  const { api, resource, namespace, name = '' } = call
  const { type, patch } = await readPatch(call.request)
  const live = api.store.get(resource.stored, namespace, name)
  if (type === 'apply') {
    applyObject(call, patch, live)
    return
  }
  if (!live) throw notFound(resource, name)
  const patched = patchValue(call, type, present(resource, live), patch)
  if (!isObject(patched)) throw badRequest('the patch leaves no object')
  const { object, headers } = decoded(call, patched)
  sameIdentity(call, object)
  sendOne(
    call,
    200,
    api.writer.update(storedResource(call), object, subresourceOf(call), writeOptions(call, live)),
    headers,
  )
}

/** A JSON, merge or strategic merge patch applied to a value of the call's kind. */
export function patchValue(
  { schema, resource }: Pick<ApiCall, 'schema' | 'resource'>,
  type: Exclude<PatchType, 'apply'>,
  target: JsonObject,
  patch: Json,
): Json {
  if (type === 'json') return jsonPatch(target, patch)
  if (!isObject(patch)) throw badRequest('error decoding patch: json: cannot unmarshal the patch into an object')
  return type === 'merge' ? mergePatch(target, patch) : strategicMerge(schema, resource.schema, target, patch)
}

function applyObject(call: ApiCall, patch: Json, live: Stored | undefined): void {
  const { api, resource, namespace, name = '', schema, query, subresource } = call
  const manager = query.get('fieldManager')
  if (!manager) {
    throw invalid({ name: '', kind: 'PatchOptions', group: 'meta.k8s.io' }, '', [
      { reason: 'FieldValueRequired', field: 'fieldManager', message: 'Required value: is required for apply patch' },
    ])
  }
  if (!isObject(patch)) throw badRequest('the configuration to apply is no object of the API')
  const { object, headers } = decoded(call, patch)
  if ('managedFields' in object.metadata) throw badRequest('metadata.managedFields must be nil')
  object.metadata.name ??= name
  if (namespace !== undefined) object.metadata.namespace ??= namespace
  sameIdentity(call, object)
  if (live && object.metadata.uid && object.metadata.uid !== live.metadata.uid) throw conflict(resource, name)
  const author = { manager: managerOf(call), time: timestamp(call.now()), ...(subresource && { subresource }) }
  const next = serverSideApply({
    schema,
    typeName: resource.schema,
    live: live && present(resource, live),
    config: present(resource, object),
    author,
    force: flag(query, 'force'),
  })
  const dryRun = isDryRun(call)
  if (live) {
    const updated = api.writer.update(storedResource(call), next as unknown as Stored, subresourceOf(call), { dryRun })
    sendOne(call, 200, updated, headers)
  } else {
    sendOne(
      call,
      201,
      api.writer.create(storedResource(call), namespace, next as unknown as Draft, { dryRun }),
      headers,
    )
  }
}

/** A patch can't move an object to another name or namespace. */
function sameIdentity({ resource, namespace, name = '' }: ApiCall, object: Stored): void {
  const { metadata } = object
  if (metadata.name !== name) {
    throw badRequest(`the name of the object (${metadata.name}) does not match the name on the URL (${name})`)
  }
  if (resource.namespaced && metadata.namespace !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  }
}

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
function serverSideApply({ schema, typeName, live, config, author, force }: ApplyRequest): JsonObject {
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

/** Removes the fields of a set, except list items in which other managers own fields. */
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
