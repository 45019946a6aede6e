import type { ApiCall } from './api-call.ts'
import { sendObject } from './http-messages.ts'
import { apiVersionOf, type Resource } from './resource.ts'
import { selects } from './selectors.ts'
import { badRequest, notFound, StatusError } from './status-error.ts'
import { jsonOf, type Store, type Stored } from './store.ts'
import { type IncludeObject, tableOf } from './table.ts'

/** The predicate that selects the objects of a list, a watch or a deletecollection. */
export function selection(
  call: Pick<ApiCall, 'query' | 'resource' | 'name' | 'namespace'>,
): (object: Stored) => boolean {
  const { query, resource, name, namespace } = call
  const [labelSelector, fieldSelector] = [query.get('labelSelector'), query.get('fieldSelector')]
  const isSelected = selects(resource, { labelSelector, fieldSelector })
  return (object) =>
    (name === undefined || object.metadata.name === name) &&
    (namespace === undefined || object.metadata.namespace === namespace) &&
    isSelected(object)
}

/** An object as the requested version of its API group shows it. */
export function inVersionOf(
  { asRead }: Resource,
  object: Stored,
): object & Partial<Record<'kind' | 'apiVersion', unknown>> {
  return asRead ? asRead(jsonOf(object)) : object
}

/** The stored object that a call names; throws 404. */
export function found({ api, resource, namespace, name = '' }: ApiCall): Stored {
  const object = api.store.get(resource.name, namespace, name)
  if (!object) throw notFound(resource, name)
  return object
}

/** Sends one object in the requested form. */
export function sendOne(call: ApiCall, code: number, object: Stored, headers: Record<string, string> = {}): void {
  const { resource, response } = call
  const { resourceVersion } = object.metadata
  const body = call.asTable
    ? tableOf(resource.name, [object], { resourceVersion }, tableOptions(call))
    : inVersionOf(resource, object)
  sendObject(response, code, body, headers)
}

/**
 * GET of a list. Always the current objects and all of them: the API allows a server to ignore `limit` and to answer with
 * newer objects than `resourceVersion` asks for.
 */
export function listObjects(call: ApiCall): void {
  const { api, resource, response } = call
  revisionOf(call)
  const items = api.store.list(resource.name, call.namespace).filter(selection(call))
  const metadata = { resourceVersion: String(api.store.revision) }
  const body = call.asTable
    ? tableOf(resource.name, items, metadata, tableOptions(call))
    : listOf(resource, items, metadata)
  sendObject(response, 200, body)
}

/** A typed list; as in Kubernetes its items don't repeat kind and apiVersion. */
export function listOf(resource: Resource, items: readonly Stored[], metadata: object): object {
  const contents = items.map((item) => {
    const { kind: _kind, apiVersion: _version, ...rest } = inVersionOf(resource, item)
    return rest
  })
  return { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource), metadata, items: contents }
}

/** The table options of this call. */
export function tableOptions(call: Pick<ApiCall, 'query' | 'now'>): { include: IncludeObject; now: Date } {
  const include = call.query.get('includeObject') ?? 'Metadata'
  if (include !== 'None' && include !== 'Metadata' && include !== 'Object') {
    throw badRequest(`unable to convert: includeObject must be None, Metadata or Object, not "${include}"`)
  }
  return { include, now: call.now() }
}

/** The `resourceVersion` of a list or watch, 0 if any will do. Throws 400 for other text, 504 for a future version. */
export function revisionOf({ query, api }: { query: URLSearchParams; api: { store: Store } }): number {
  const version = query.get('resourceVersion') ?? ''
  if (!/^\d*$/.test(version)) throw badRequest(`Invalid value: "${version}": resourceVersion must be a number`)
  const { revision } = api.store
  if (Number(version) <= revision) return Number(version)
  throw new StatusError(504, 'Timeout', `Timeout: Too large resource version: ${version}, current: ${revision}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  })
}
