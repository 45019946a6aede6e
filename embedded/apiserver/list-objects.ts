import { matchesSelector } from '../../dataplane/label-selector.ts'
import { type ApiCall, flag, number } from './api-call.ts'
import { sendObject } from './http-messages.ts'
import { apiVersionOf } from './resource.ts'
import { matchesFields, parseFieldSelector, parseLabelSelector } from './selectors.ts'
import { present, type Served } from './served.ts'
import { badRequest, expired, invalid, notFound, StatusError } from './status-error.ts'
import type { Store, Stored } from './store.ts'
import { type IncludeObject, partialMetadata, tableOf } from './table.ts'

/** The predicate that selects the objects of a list, a watch or a deletecollection. */
export function selection(
  call: Pick<ApiCall, 'query' | 'resource' | 'name' | 'namespace'>,
): (object: Stored) => boolean {
  const { query, resource, name, namespace } = call
  const labels = parseLabelSelector(query.get('labelSelector') ?? '')
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '', resource)
  return (object) =>
    (name === undefined || object.metadata.name === name) &&
    (namespace === undefined || object.metadata.namespace === namespace) &&
    matchesSelector(labels, object.metadata.labels) &&
    (fields.length === 0 || matchesFields(fields, present(resource, object)))
}

/** GET of one object. */
export function getObject(call: ApiCall): void {
  const { api, resource, namespace, name = '' } = call
  const object = api.store.get(resource.stored, namespace, name)
  if (!object) throw notFound(resource, name)
  sendOne(call, 200, object)
}

/** Sends one object in the requested form. */
export function sendOne(call: ApiCall, code: number, object: Stored, headers: Record<string, string> = {}): void {
  const { resource, accepted, response } = call
  const version = { resourceVersion: object.metadata.resourceVersion }
  const body =
    accepted.shape === 'table'
      ? tableOf(resource.stored, [object], version, tableOptions(call))
      : accepted.shape === 'metadata'
        ? partialMetadata(object)
        : present(resource, object)
  sendObject(response, code, body, accepted.encoding, headers)
}

/** GET of a list: selectors, `limit` and `continue`, `resourceVersion` and its match. */
export function listObjects(call: ApiCall): void {
  const { api, query, resource, accepted, response } = call
  const selected = selection(call)
  const page = pageOf(call)
  const everything =
    page.revision === undefined
      ? api.store.list(resource.stored, call.namespace)
      : api.store.listAt(resource.stored, page.revision, call.namespace)
  const after = everything.filter((object) => page.start === undefined || keyOf(object) > page.start)
  const found = after.filter(selected)
  const limit = number(query, 'limit') || found.length
  const items = found.slice(0, limit)
  const revision = page.revision ?? api.store.revision
  const metadata: Record<string, unknown> = { resourceVersion: String(revision) }
  const last = items.at(-1)
  if (found.length > items.length && last) {
    metadata.continue = Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: revision, start: keyOf(last) })).toString(
      'base64url',
    )
    if (!query.get('labelSelector') && !query.get('fieldSelector'))
      metadata.remainingItemCount = found.length - items.length
  }
  if (accepted.shape === 'table') {
    sendObject(response, 200, tableOf(resource.stored, items, metadata, tableOptions(call)), accepted.encoding)
  } else if (accepted.shape === 'metadata') {
    const list = {
      kind: 'PartialObjectMetadataList',
      apiVersion: 'meta.k8s.io/v1',
      metadata,
      items: items.map(partialMetadata),
    }
    sendObject(response, 200, list, accepted.encoding)
  } else {
    sendObject(response, 200, listOf(resource, items, metadata), accepted.encoding)
  }
}

/** A typed list; as in Kubernetes its items don't repeat kind and apiVersion. */
export function listOf(resource: Served, items: readonly Stored[], metadata: object): object {
  return {
    kind: `${resource.kind}List`,
    apiVersion: apiVersionOf(resource),
    metadata,
    items: items.map((object) => {
      const { kind: _kind, apiVersion: _version, ...rest } = present(resource, object)
      return rest
    }),
  }
}

/** The table options of this call. */
export function tableOptions(call: Pick<ApiCall, 'query' | 'resource' | 'now'>) {
  const asked = call.query.get('includeObject')
  if (asked !== null && asked !== 'None' && asked !== 'Metadata' && asked !== 'Object') {
    throw badRequest(`unable to convert: includeObject must be None, Metadata or Object, not "${asked}"`)
  }
  const include: IncludeObject = asked ?? 'Metadata'
  return { include, now: call.now(), present: (object: Stored) => present(call.resource, object) }
}

/** Checks that a revision has been reached; 504, as in Kubernetes, for future versions. */
function checkReached(store: Store, revision: number): void {
  if (revision <= store.revision) return
  const message = `Too large resource version: ${revision}, current: ${store.revision}`
  throw new StatusError(504, 'Timeout', `Timeout: ${message}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  })
}

function keyOf(object: Stored): string {
  return `${object.metadata.namespace ?? ''}/${object.metadata.name}`
}

/** The revision to list (undefined: the current one) and the key to continue after. */
function pageOf({ query, api, resource }: ApiCall): { revision?: number; start?: string } {
  const token = query.get('continue')
  if (token) return readContinue(token)
  const version = query.get('resourceVersion') ?? ''
  const match = query.get('resourceVersionMatch') ?? ''
  if (match !== '' && version === '') {
    throw invalid({ ...resource, kind: 'ListOptions', group: 'meta.k8s.io' }, '', [
      {
        reason: 'FieldValueForbidden',
        field: 'resourceVersionMatch',
        message: 'Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
      },
    ])
  }
  if (version === '' || version === '0') return {}
  if (!/^\d+$/.test(version))
    throw badRequest(`Invalid value: "${version}": strconv.ParseUint: parsing "${version}": invalid syntax`)
  const revision = Number(version)
  checkReached(api.store, revision)
  const exact = match === 'Exact' || (match === '' && flag(query, 'limit'))
  return exact ? { revision } : {}
}

function readContinue(token: string): { revision: number; start: string } {
  try {
    const { rv, start }: { rv: unknown; start: unknown } = JSON.parse(String(Buffer.from(token, 'base64url')))
    if (typeof rv === 'number' && typeof start === 'string') return { revision: rv, start }
  } catch {
    // Falls through: a token that isn't ours.
  }
  throw expired('The provided continue parameter is not valid; list again without it')
}
