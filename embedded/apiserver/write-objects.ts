import type { DeleteOptions } from './api.ts'
import { type ApiCall, number } from './api-call.ts'
import { decode } from './decode.ts'
import { readObject, sendObject, warningHeader } from './http-messages.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { listOf, selection, sendOne } from './list-objects.ts'
import { type Author, trackUpdate } from './managed-fields.ts'
import { timestamp } from './object-lifecycle.ts'
import { apiVersionOf } from './resource.ts'
import { badRequest, notFound } from './status-error.ts'
import { jsonOf, type Stored, storedOf } from './store.ts'

/** POST of a new object. */
export async function createObject(call: ApiCall): Promise<void> {
  const { api, namespace } = call
  const { object, headers } = decoded(call, await readObject(call.request, call.schema))
  const created = api.writer.create(call.resource, namespace, object, writeOptions(call, undefined))
  sendOne(call, 201, created, headers)
}

/** PUT of a whole object or of its status. */
export async function replaceObject(call: ApiCall): Promise<void> {
  const { api, resource, namespace, name = '' } = call
  const { object, headers } = decoded(call, await readObject(call.request, call.schema))
  const given = object.metadata.name
  if (given !== name) {
    throw badRequest(`the name of the object (${given ?? ''}) does not match the name on the URL (${name})`)
  }
  if (resource.namespaced && object.metadata.namespace && object.metadata.namespace !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  }
  if (namespace !== undefined) object.metadata.namespace = namespace
  const old = api.store.get(resource.name, namespace, name)
  if (!old) throw notFound(resource, name)
  sendOne(call, 200, api.writer.update(call.resource, object, subresourceOf(call), writeOptions(call, old)), headers)
}

/** DELETE of one object. */
export async function deleteObject(call: ApiCall): Promise<void> {
  const { api, resource, namespace, name = '', response } = call
  const options = deleteOptions(call, await readObject(call.request, call.schema))
  const { object, gone } = api.writer.delete(call.resource, namespace, name, {
    ...options,
    dryRun: isDryRun(call),
  })
  // Pods, Services and objects that wait for finalizers are returned; for all others a Success.
  if (!gone || ['pods', 'services', 'serviceaccounts'].includes(resource.name)) sendOne(call, 200, object)
  else {
    const details = {
      name,
      ...(resource.group ? { group: resource.group } : {}),
      kind: resource.name,
      uid: object.metadata.uid,
    }
    sendObject(response, 200, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details })
  }
}

/** DELETE of all selected objects. */
export async function deleteCollection(call: ApiCall): Promise<void> {
  const { api, resource, namespace, response } = call
  const options = deleteOptions(call, await readObject(call.request, call.schema))
  const selected = selection(call)
  const deleted = api.store
    .list(resource.name, namespace)
    .filter(selected)
    .map(({ metadata }) =>
      api.writer.delete(call.resource, metadata.namespace, metadata.name, {
        ...options,
        dryRun: isDryRun(call),
      }),
    )
  const metadata = { resourceVersion: String(api.store.revision) }
  const items = deleted.map(({ object }) => object)
  sendObject(response, 200, listOf(resource, items, metadata))
}

/** An object of a request as the store keeps it, and the warnings about fields that its kind doesn't have. */
export function decoded(call: ApiCall, body: JsonObject): { object: Stored; headers: Record<string, string> } {
  const { resource } = call
  const { kind } = resource
  const version = apiVersionOf(resource)
  if ((body.kind ?? kind) !== kind || (body.apiVersion ?? version) !== version) {
    const given = `${body.kind ?? ''} in version "${body.apiVersion ?? ''}"`
    throw badRequest(`${given} is not what this path takes: the expected kind is ${kind} in version "${version}"`)
  }
  const { value, unknown } = decode(call.schema, resource.schema, body, { kind, version: resource.version })
  const warnings = [...new Set(unknown)].map((field) => `unknown field "${field}"`)
  const validation = call.query.get('fieldValidation') || 'Warn'
  if (!['Strict', 'Warn', 'Ignore'].includes(validation)) {
    throw badRequest(
      `fieldValidation: Unsupported value: "${validation}": supported values: "", "Ignore", "Strict", "Warn"`,
    )
  }
  if (warnings.length > 0 && validation === 'Strict') {
    const message = `strict decoding error: ${warnings.join(', ')}`
    throw badRequest(`${kind} in version "${resource.version}" cannot be handled as a ${kind}: ${message}`)
  }
  if (!isObject(value.metadata)) value.metadata = {}
  return {
    object: storedOf({ ...value, kind }),
    headers: validation === 'Warn' ? warningHeader(warnings) : {},
  }
}

export function isDryRun({ query }: ApiCall): boolean {
  const asked = query.getAll('dryRun')
  for (const value of asked) {
    if (value !== 'All') throw badRequest(`dryRun: Unsupported value: "${value}": supported values: "All"`)
  }
  return asked.length > 0
}

export function subresourceOf({ subresource }: ApiCall): 'status' | undefined {
  return subresource === 'status' ? 'status' : undefined
}

/** The author of a write: the named field manager, or the client's program from its User-Agent. */
export function authorOf({ query, request, now, subresource }: ApiCall): Author {
  const name = query.get('fieldManager') || (request.headers['user-agent'] ?? '').split('/', 1)[0] || 'unknown'
  return { manager: name.slice(0, 128), time: timestamp(now()), ...(subresource && { subresource }) }
}

/** Options of a write that records the author of every changed field. */
export function writeOptions(call: ApiCall, old: Stored | undefined) {
  const { resource, schema } = call
  const finish = (next: Stored): Stored =>
    storedOf(trackUpdate(schema, resource.schema, old && jsonOf(old), jsonOf(next), authorOf(call)))
  return { dryRun: isDryRun(call), finish }
}

function deleteOptions(call: ApiCall, body: JsonObject): DeleteOptions {
  const { query } = call
  const grace: Json | undefined = body.gracePeriodSeconds ?? number(query, 'gracePeriodSeconds')
  const policy = body.propagationPolicy ?? query.get('propagationPolicy') ?? undefined
  const orphan = body.orphanDependents === true || query.get('orphanDependents') === 'true'
  if (policy !== undefined && policy !== 'Background' && policy !== 'Foreground' && policy !== 'Orphan') {
    throw badRequest(
      `invalid DeleteOptions: propagationPolicy: Unsupported value: "${policy}": supported values: "Background", "Foreground", "Orphan"`,
    )
  }
  return {
    ...(typeof grace === 'number' && { gracePeriodSeconds: grace }),
    ...(isObject(body.preconditions) && { preconditions: body.preconditions }),
    ...(policy !== undefined ? { propagationPolicy: policy } : orphan && { propagationPolicy: 'Orphan' as const }),
  }
}
