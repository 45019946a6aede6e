import { type ApiCall, flag, number } from './api-call.ts'
import { columnsOf } from './columns.ts'
import { apiVersionOf, type Resource } from './resource.ts'
import { selects } from './selectors.ts'
import { asStatusError, badRequest, StatusError } from './status-error.ts'
import { jsonOf, type Stored, type StoreEvent } from './store.ts'
import { tableOf } from './table.ts'

/** The predicate that selects the objects of a list or a watch. */
function selection({ query, resource, name, namespace }: ApiCall): (object: Stored) => boolean {
  const [labelSelector, fieldSelector] = [query.get('labelSelector'), query.get('fieldSelector')]
  const isSelected = selects(resource, { labelSelector, fieldSelector })
  return (object) =>
    (name === undefined || object.metadata.name === name) &&
    (namespace === undefined || object.metadata.namespace === namespace) &&
    isSelected(object)
}

/** An object as the requested version of its API group shows it. */
function inVersionOf(
  { asRead }: Resource,
  object: Stored,
): object & Partial<Record<'kind' | 'apiVersion', unknown>> {
  return asRead ? asRead(jsonOf(object)) : object
}

/** The stored object that a call names; throws 404. */
export function found({ api, resource, namespace, name = '' }: ApiCall): Stored {
  return api.read(resource.name, namespace, name)
}

/** Objects as the table that kubectl asks for; its rows contain the whole objects on request. */
function tableFor(
  { resource, query }: ApiCall,
  objects: readonly Stored[],
  resourceVersion: string,
  headers = true,
) {
  const whole = query.get('includeObject') === 'Object'
  return tableOf(columnsOf(resource.name), objects, { resourceVersion, headers, whole })
}

/** One object in the form that the client prefers. */
export function shaped(call: ApiCall, object: Stored, headers = true): object {
  if (!call.asTable) return inVersionOf(call.resource, object)
  return tableFor(call, [object], object.metadata.resourceVersion, headers)
}

/**
 * GET of a list: always all current objects. The API allows a server to ignore `limit` and an older
 * `resourceVersion`.
 */
export function answerList(call: ApiCall): object {
  const { api, resource } = call
  revisionOf(call)
  const items = api.store.list(resource.name, call.namespace).filter(selection(call))
  const revision = String(api.store.revision)
  return call.asTable ? tableFor(call, items, revision) : listOf(resource, items, revision)
}

/** A typed list; as in Kubernetes its items don't repeat kind and apiVersion. */
function listOf(resource: Resource, items: readonly Stored[], resourceVersion: string): object {
  const contents = items.map((item) => {
    const { kind: _kind, apiVersion: _version, ...rest } = inVersionOf(resource, item)
    return rest
  })
  return {
    kind: `${resource.kind}List`,
    apiVersion: apiVersionOf(resource),
    metadata: { resourceVersion },
    items: contents,
  }
}

/**
 * The `resourceVersion` of a list or watch, 0 if any will do. Throws 400 for other text, 410 for a
 * version of an earlier cluster.
 */
function revisionOf({ query, api }: ApiCall): number {
  const version = query.get('resourceVersion') ?? ''
  if (!/^\d*$/.test(version))
    throw badRequest(`Invalid value: "${version}": resourceVersion must be a number`)
  const { revision } = api.store
  if (Number(version) > revision)
    throw new StatusError('Expired', `too large resource version: ${version} (${revision})`)
  return Number(version)
}

const defaultTimeoutSeconds = 45 * 60
const backlogLimit = 64 * 1024 * 1024

/**
 * Answers with a stream of changes, one JSON object a line: from `resourceVersion` on, or from the
 * present state (first an ADDED for every object). Bookmarks are not sent; a server may leave them
 * out.
 */
export function answerWatch(call: ApiCall): undefined {
  const { api, query, resource, response } = call
  if (flag(query, 'sendInitialEvents')) {
    // The answer of an API server without this feature: clients then list first.
    const reason =
      'sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled'
    throw new StatusError('Invalid', reason)
  }
  const selected = selection(call)
  const revision = revisionOf(call)
  let headers = true
  const write = (type: string, object: unknown) =>
    response.write(`${JSON.stringify({ type, object })}\n`)
  const forward = (event: StoreChange): void => {
    const seen = transition(event, selected)
    if (!seen) return
    write(seen.type, shaped(call, seen.object, headers))
    headers = false
  }

  response.writeHead(200, {
    'content-type': 'application/json',
    'cache-control': 'no-cache, private',
  })
  try {
    if (revision > 0) for (const event of api.store.since(resource.name, revision)) forward(event)
    else
      for (const object of api.store.list(resource.name, call.namespace))
        forward({ type: 'ADDED', object })
  } catch (error) {
    write('ERROR', asStatusError(error).status)
    response.end()
    return
  }
  // Sent immediately, because clients may wait for the headers while there are no changes.
  response.flushHeaders()
  const unsubscribe = api.store.subscribe((event) => {
    if (event.resource === resource.name) forward(event)
    // A client that doesn't read is disconnected, as in Kubernetes; it reconnects with its last
    // version.
    if (response.writableLength > backlogLimit) response.destroy()
  })
  const seconds = Math.min(number(query, 'timeoutSeconds') || defaultTimeoutSeconds, 86_400)
  const end = () => {
    unsubscribe()
    response.end()
  }
  const timeout = setTimeout(end, seconds * 1000)
  response.on('close', () => {
    unsubscribe()
    clearTimeout(timeout)
  })
}

type StoreChange = Pick<StoreEvent, 'type' | 'object' | 'previous'>

/**
 * The change as a client with selectors sees it: what no longer matches is DELETED, what newly
 * matches is ADDED.
 */
function transition(
  { type, object, previous }: StoreChange,
  selected: (object: Stored) => boolean,
): StoreChange | undefined {
  const now = type !== 'DELETED' && selected(object)
  const before = previous !== undefined && selected(previous)
  if (now) return { type: before ? 'MODIFIED' : 'ADDED', object }
  if (!before || !previous) return undefined
  // As Kubernetes does, the last state that the client knew, with the revision of the change.
  const last = type === 'DELETED' ? object : previous
  const { resourceVersion } = object.metadata
  return { type: 'DELETED', object: { ...last, metadata: { ...last.metadata, resourceVersion } } }
}
