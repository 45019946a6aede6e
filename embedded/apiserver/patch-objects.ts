import type { Draft } from './api.ts'
import { type ApiCall, flag, storedResource } from './api-call.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { jsonPatch } from './json-patch.ts'
import { sendOne } from './list-objects.ts'
import { mergePatch } from './merge-patch.ts'
import { timestamp } from './object-birth.ts'
import { type PatchType, readPatch } from './request-body.ts'
import { present } from './served.ts'
import { serverSideApply } from './server-side-apply.ts'
import { badRequest, conflict, invalid, notFound } from './status-error.ts'
import type { Stored } from './store.ts'
import { strategicMerge } from './strategic-merge.ts'
import { decoded, isDryRun, managerOf, subresourceOf, writeOptions } from './write-objects.ts'

/** PATCH in its four forms; server-side apply also creates what isn't there. */
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
