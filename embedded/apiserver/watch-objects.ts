import { type ApiCall, flag, number } from './api-call.ts'
import { selection, tableOptions } from './list-objects.ts'
import { apiVersionOf } from './resource.ts'
import { present } from './served.ts'
import { badRequest, invalid, StatusError } from './status-error.ts'
import type { Stored, StoreEvent } from './store.ts'
import { partialMetadata, tableOf } from './table.ts'

/** As often as Kubernetes' watch cache sends bookmarks. */
const bookmarkInterval = 60_000
const defaultTimeoutSeconds = 45 * 60
const backlogLimit = 64 * 1024 * 1024

/**
 * Answers with a stream of changes, one JSON object a line: from `resourceVersion` on, or from the present state (first
 * an ADDED for every object). With `sendInitialEvents` a bookmark marks the end of that state.
 */
export function watchObjects(call: ApiCall): void {
  const { api, query, resource, accepted, response } = call
  const selected = selection(call)
  const initial = flag(query, 'sendInitialEvents')
  checkWatchList(call, initial)
  const version = query.get('resourceVersion') ?? ''
  if (!/^\d*$/.test(version)) throw badRequest(`Invalid value: "${version}": resourceVersion must be a number`)
  const bookmarks = flag(query, 'allowWatchBookmarks')
  const fromNow = initial || version === '' || version === '0'

  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' })
  let headers = true
  const write = (type: string, object: unknown): void => {
    if (response.writable) response.write(`${JSON.stringify({ type, object })}\n`)
  }
  const shaped = (object: Stored): unknown => {
    if (accepted.shape === 'metadata') return partialMetadata(object)
    if (accepted.shape !== 'table') return present(resource, object)
    const metadata = { resourceVersion: object.metadata.resourceVersion }
    const table = tableOf(resource.stored, [object], metadata, { ...tableOptions(call), headers })
    headers = false
    return table
  }
  const bookmark = (annotations?: Record<string, string>): void => {
    const metadata = {
      resourceVersion: String(api.store.revision),
      creationTimestamp: null,
      ...(annotations && { annotations }),
    }
    write('BOOKMARK', {
      kind: resource.kind,
      apiVersion: apiVersionOf(resource),
      metadata,
      ...emptyContent(resource.kind),
    })
  }
  const forward = (event: StoreEvent): void => {
    const seen = transition(event, selected)
    if (seen) write(seen.type, shaped(seen.object))
  }

  try {
    if (fromNow) {
      for (const object of api.store.list(resource.stored, call.namespace))
        if (selected(object)) write('ADDED', shaped(object))
      if (initial && bookmarks) bookmark({ 'k8s.io/initial-events-end': 'true' })
    } else {
      for (const event of api.store.since(resource.stored, Number(version))) forward(event)
    }
  } catch (error) {
    if (!(error instanceof StatusError)) throw error
    write('ERROR', error.status)
    response.end()
    return
  }

  // Sent immediately, because clients may wait for the headers while there are no changes.
  response.flushHeaders()
  const stop = (): void => {
    unsubscribe()
    clearInterval(ticking)
    clearTimeout(timeout)
    call.closing.removeEventListener('abort', end)
  }
  const end = (): void => {
    stop()
    response.end()
  }
  const unsubscribe = api.store.subscribe((event) => {
    if (event.resource !== resource.stored) return
    forward(event)
    // A client that doesn't read is disconnected, as in Kubernetes; it reconnects with its last version.
    if (response.writableLength > backlogLimit) response.destroy()
  })
  const ticking = bookmarks ? setInterval(bookmark, bookmarkInterval) : undefined
  const timeout = setTimeout(end, Math.min(number(query, 'timeoutSeconds') || defaultTimeoutSeconds, 86_400) * 1000)
  call.closing.addEventListener('abort', end)
  response.on('close', stop)
}

/**
 * The change as a client with selectors sees it: an object that no longer matches is DELETED, one that newly matches is
 * ADDED.
 */
function transition(
  { type, object, previous }: StoreEvent,
  selected: (object: Stored) => boolean,
): { type: StoreEvent['type']; object: Stored } | undefined {
  const now = type !== 'DELETED' && selected(object)
  const before = previous !== undefined && selected(previous)
  if (now) return { type: before ? 'MODIFIED' : 'ADDED', object }
  if (!before || !previous) return undefined
  // As Kubernetes does, the last state that the client knew, with the revision of the change.
  const { resourceVersion } = object.metadata
  return {
    type: 'DELETED',
    object: {
      ...(type === 'DELETED' ? object : previous),
      metadata: { ...(type === 'DELETED' ? object : previous).metadata, resourceVersion },
    },
  }
}

function checkWatchList({ query, resource }: ApiCall, initial: boolean): void {
  const match = query.get('resourceVersionMatch')
  const fault = (field: string, message: string): StatusError =>
    invalid({ ...resource, kind: 'ListOptions', group: 'meta.k8s.io' }, '', [
      { reason: 'FieldValueForbidden', field, message: `Forbidden: ${message}` },
    ])
  if (initial && match !== 'NotOlderThan') {
    throw fault('resourceVersionMatch', 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan')
  }
  if (initial && !flag(query, 'allowWatchBookmarks')) {
    throw fault('sendInitialEvents', 'sendInitialEvents requires setting allowWatchBookmarks to true')
  }
  if (!initial && match && !query.has('sendInitialEvents')) {
    throw fault(
      'resourceVersionMatch',
      'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
    )
  }
}

/** Typed clients decode bookmarks as whole objects, and some kinds have fields that may not be missing. */
function emptyContent(kind: string): object {
  return kind === 'EndpointSlice' ? { addressType: '', endpoints: null, ports: null } : {}
}
