import { type ApiCall, flag } from './api-call.ts'
import { type PatchType, readPatch } from './http-messages.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { sendOne } from './list-objects.ts'
import { jsonPatch, mergePatch } from './patches.ts'
import type { Schema } from './schema.ts'
import { serverSideApply } from './server-side-apply.ts'
import { badRequest, invalid, notFound } from './status-error.ts'
import { jsonOf, type Stored, storedOf } from './store.ts'
import { strategicMerge } from './strategic-merge.ts'
import { authorOf, decoded, isDryRun, subresourceOf, writeOptions } from './write-objects.ts'

/** PATCH in its four forms; server-side apply also creates missing objects. */
export async function patchObject(call: ApiCall): Promise<void> {
  const { api, resource, namespace, name = '' } = call
  const { type, patch } = await readPatch(call.request)
  const live = api.store.get(resource.name, namespace, name)
  if (type === 'apply') {
    applyObject(call, patch, live)
    return
  }
  if (!live) throw notFound(resource, name)
  const patched = patchValue(call.schema, resource.schema, type, jsonOf(live), patch)
  if (!isObject(patched)) throw badRequest('the patch leaves no object')
  const { object, headers } = decoded(call, patched)
  sameIdentity(call, object)
  sendOne(call, 200, api.writer.update(call.resource, object, subresourceOf(call), writeOptions(call, live)), headers)
}

/** A JSON, merge or strategic merge patch applied to a value of a type. */
export function patchValue(
  schema: Schema,
  typeName: string,
  type: Exclude<PatchType, 'apply'>,
  target: JsonObject,
  patch: Json,
): Json {
  if (type === 'json') return jsonPatch(target, patch)
  if (!isObject(patch)) throw badRequest('error decoding patch: json: cannot unmarshal the patch into an object')
  return type === 'merge' ? mergePatch(target, patch) : strategicMerge(schema, typeName, target, patch)
}

function applyObject(call: ApiCall, patch: Json, live: Stored | undefined): void {
  const { api, resource, namespace, name = '', schema, query } = call
  if (!query.get('fieldManager')) {
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
  const next = serverSideApply({
    schema,
    typeName: resource.schema,
    live: live && jsonOf(live),
    config: jsonOf(object),
    author: authorOf(call),
    force: flag(query, 'force'),
  })
  const options = { dryRun: isDryRun(call) }
  const stored = live
    ? api.writer.update(resource, storedOf(next), subresourceOf(call), options)
    : api.writer.create(resource, namespace, storedOf(next), options)
  sendOne(call, live ? 200 : 201, stored, headers)
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
