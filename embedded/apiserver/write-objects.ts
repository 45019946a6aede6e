import type { V1DeleteOptions } from '@kubernetes/client-node'
import type { DeleteOptions, WriteOptions } from './api.ts'
import { type ApiCall, number } from './api-call.ts'
import { readObject, readPatch, warn } from './http-messages.ts'
import { isJsonObject, type JsonObject } from './json.ts'
import { found, shaped } from './read-objects.ts'
import { apiVersionOf, type Resource } from './resource.ts'
import { decode, notOfKind } from './schema.ts'
import { badRequest } from './status-error.ts'
import { jsonOf, type Stored, storedOf } from './store.ts'

/** POST of a new object. */
export async function createObject(call: ApiCall): Promise<object> {
  const object = decoded(call, call.resource, await readObject(call.request, call.schema))
  return shaped(
    call,
    call.api.create<Stored>(call.resource.name, call.namespace, object, writeOptions(call)),
  )
}

/** PUT or PATCH of an object, of its status or of its ephemeral containers. */
export async function updateObject(call: ApiCall): Promise<object> {
  const { api, resource } = call
  const object = await requestedObject(call, resource, () => jsonOf(found(call)))
  const subresource = call.subresource === 'status' ? 'status' : undefined
  return shaped(call, api.update(resource.name, object, subresource, writeOptions(call)))
}

type RequestedKind = Pick<Resource, 'kind' | 'group' | 'version' | 'schema'>

/**
 * The object that a request contains, or that a PATCH makes of the present one. Throws 400 for
 * another kind or name than those of the path.
 */
export async function requestedObject(
  call: ApiCall,
  kind: RequestedKind,
  present = (): JsonObject => ({}),
): Promise<Stored> {
  const { request, schema, namespace, name } = call
  const patch =
    request.method === 'PATCH' ? await readPatch(request, schema, kind.schema) : undefined
  const body = patch ? patch(present()) : await readObject(request, schema)
  if (!isJsonObject(body)) throw badRequest('the patch leaves no object')
  const object = decoded(call, kind, body)
  const { metadata } = object
  if (metadata.name !== name)
    throw badRequest(
      `the name of the object (${metadata.name ?? ''}) does not match the name on the URL (${name})`,
    )
  if (namespace !== undefined) metadata.namespace = namespace
  return object
}

/** DELETE of one object; the answer is its last state. */
export async function deleteObject(call: ApiCall): Promise<object> {
  const { api, resource, namespace, name = '' } = call
  const options = deleteOptions(call, await readObject(call.request, call.schema))
  return shaped(call, api.delete(resource.name, namespace, name, options))
}

/** The object of a kind in a request. The answer warns about fields that the kind doesn't have. */
function decoded(call: ApiCall, own: RequestedKind, body: JsonObject): Stored {
  const { kind } = own
  const version = apiVersionOf(own)
  if ((body.kind ?? kind) !== kind || (body.apiVersion ?? version) !== version) {
    const described = `${body.kind ?? ''} in version "${body.apiVersion ?? ''}"`
    throw badRequest(
      `${described} is not what this path takes: the expected kind is ${kind} in version "${version}"`,
    )
  }
  const { value, unknown } = decode(call.schema, own, body)
  const warnings = [...new Set(unknown)].map((field) => `unknown field "${field}"`)
  const validation = call.query.get('fieldValidation')
  if (warnings.length > 0 && validation === 'Strict')
    throw notOfKind(own, `strict decoding error: ${warnings.join(', ')}`)
  const object = storedOf({ ...value, kind, metadata: value.metadata ?? {} })
  const { namespace } = object.metadata
  if (call.resource.namespaced && namespace && namespace !== call.namespace)
    throw badRequest(
      'the namespace of the provided object does not match the namespace sent on the request',
    )
  if (warnings.length > 0 && validation !== 'Ignore') warn(call.response, warnings)
  return object
}

/**
 * Whether nothing is to be stored: as the query asks, or the options of a deletion. Throws 400 for
 * another value than All.
 */
function isDryRun({ query }: ApiCall, { dryRun = [] }: V1DeleteOptions = {}): boolean {
  const asked = [...query.getAll('dryRun'), ...dryRun]
  for (const value of asked) {
    if (value !== 'All')
      throw badRequest(`dryRun: Unsupported value: "${value}": supported values: "All"`)
  }
  return asked.length > 0
}

/**
 * Options of a write by a client: its field manager, or its program from the User-Agent, is
 * recorded.
 */
export function writeOptions(call: ApiCall): WriteOptions {
  const { query, request, subresource } = call
  const manager =
    query.get('fieldManager') || (request.headers['user-agent'] ?? '').split('/', 1)[0] || 'unknown'
  return {
    dryRun: isDryRun(call),
    author: { manager: manager.slice(0, 128), ...(subresource && { subresource }) },
  }
}

/**
 * The options of a deletion in a request's body and query. Throws 400 for a policy other than
 * Background.
 */
export function deleteOptions(call: ApiCall, body: JsonObject): DeleteOptions & WriteOptions {
  const { value } = decode(
    call.schema,
    { kind: 'DeleteOptions', version: 'v1', schema: 'V1DeleteOptions' },
    body,
  )
  const described: V1DeleteOptions = value
  const policy = described.propagationPolicy ?? call.query.get('propagationPolicy') ?? 'Background'
  if (policy !== 'Background') {
    throw badRequest(
      `propagationPolicy: Unsupported value: "${policy}": the embedded cluster supports only --cascade=background`,
    )
  }
  return {
    dryRun: isDryRun(call, described),
    gracePeriodSeconds: described.gracePeriodSeconds ?? number(call.query, 'gracePeriodSeconds'),
    preconditions: described.preconditions,
  }
}
