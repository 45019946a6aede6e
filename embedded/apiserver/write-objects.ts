import type { DeleteOptions, WriteOptions } from './api.ts'
import { type ApiCall, number } from './api-call.ts'
import { readObject, readPatch, warn } from './http-messages.ts'
import { isObject, type JsonObject } from './json.ts'
import { found, shaped } from './read-objects.ts'
import { apiVersionOf } from './resource.ts'
import { decode, notOfKind } from './schema.ts'
import { badRequest } from './status-error.ts'
import { jsonOf, type Stored, storedOf } from './store.ts'

/** POST of a new object. */
export async function createObject(call: ApiCall): Promise<object> {
  const object = decoded(call, await readObject(call.request, call.schema))
  return shaped(call, call.api.create<Stored>(call.resource.name, call.namespace, object, writeOptions(call)))
}

/** PUT or PATCH of an object, of its status or of its ephemeral containers. */
export async function updateObject(call: ApiCall): Promise<object> {
  const { api, resource, namespace, name = '' } = call
  const object = decoded(call, await requestedObject(call, resource.schema, () => jsonOf(found(call))))
  const { metadata } = object
  if (metadata.name !== name) {
    throw badRequest(`the name of the object (${metadata.name ?? ''}) does not match the name on the URL (${name})`)
  }
  if (namespace !== undefined) metadata.namespace = namespace
  const subresource = call.subresource === 'status' ? 'status' : undefined
  return shaped(call, api.update(resource.name, object, subresource, writeOptions(call)))
}

/** The object that a PUT contains, or that a PATCH makes of the present one. */
export async function requestedObject(
  { request, schema }: ApiCall,
  typeName: string,
  present: () => JsonObject,
): Promise<JsonObject> {
  if (request.method === 'PUT') return readObject(request, schema)
  const patch = await readPatch(request, schema, typeName)
  const patched = patch(present())
  if (!isObject(patched)) throw badRequest('the patch leaves no object')
  return patched
}

/** DELETE of one object; the answer is its last state. */
export async function deleteObject(call: ApiCall): Promise<object> {
  const { api, resource, namespace, name = '' } = call
  const options = deleteOptions(call, await readObject(call.request, call.schema))
  return shaped(call, api.delete(resource.name, namespace, name, options))
}

/** An object of a request as the store keeps it. The answer warns about fields that its kind doesn't have. */
function decoded(call: ApiCall, body: JsonObject): Stored {
  const { resource } = call
  const { kind } = resource
  const version = apiVersionOf(resource)
  if ((body.kind ?? kind) !== kind || (body.apiVersion ?? version) !== version) {
    const given = `${body.kind ?? ''} in version "${body.apiVersion ?? ''}"`
    throw badRequest(`${given} is not what this path takes: the expected kind is ${kind} in version "${version}"`)
  }
  const { value, unknown } = decode(call.schema, resource, body)
  const warnings = [...new Set(unknown)].map((field) => `unknown field "${field}"`)
  const validation = call.query.get('fieldValidation')
  if (warnings.length > 0 && validation === 'Strict')
    throw notOfKind(resource, `strict decoding error: ${warnings.join(', ')}`)
  const object = storedOf({ ...value, kind, metadata: value.metadata ?? {} })
  const { namespace } = object.metadata
  if (resource.namespaced && namespace && namespace !== call.namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  if (warnings.length > 0 && validation !== 'Ignore') warn(call.response, warnings)
  return object
}

function isDryRun({ query }: ApiCall): boolean {
  const asked = query.getAll('dryRun')
  for (const value of asked) {
    if (value !== 'All') throw badRequest(`dryRun: Unsupported value: "${value}": supported values: "All"`)
  }
  return asked.length > 0
}

/** Options of a write by a client: its field manager, or its program from the User-Agent, is recorded. */
export function writeOptions(call: ApiCall): WriteOptions {
  const { query, request, subresource } = call
  const manager = query.get('fieldManager') || (request.headers['user-agent'] ?? '').split('/', 1)[0] || 'unknown'
  return { dryRun: isDryRun(call), author: { manager: manager.slice(0, 128), ...(subresource && { subresource }) } }
}

/** The options of a deletion in a request's body and query. Throws 400 for a policy other than Background. */
export function deleteOptions(call: ApiCall, body: JsonObject): DeleteOptions & WriteOptions {
  const grace = body.gracePeriodSeconds ?? number(call.query, 'gracePeriodSeconds')
  const policy = body.propagationPolicy ?? call.query.get('propagationPolicy') ?? 'Background'
  if (policy !== 'Background') {
    throw badRequest(
      `propagationPolicy: Unsupported value: "${policy}": the embedded cluster supports only --cascade=background`,
    )
  }
  return {
    dryRun: isDryRun(call),
    ...(typeof grace === 'number' && { gracePeriodSeconds: grace }),
    ...(isObject(body.preconditions) && { preconditions: body.preconditions }),
  }
}
