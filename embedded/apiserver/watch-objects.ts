import { type ApiCall, flag, number } from './api-call.ts'
import { inVersionOf, revisionOf, selection, tableOptions } from './list-objects.ts'
import { invalid, StatusError } from './status-error.ts'
import type { Stored, StoreEvent } from './store.ts'
import { tableOf } from './table.ts'

const defaultTimeoutSeconds = 45 * 60
const backlogLimit = 64 * 1024 * 1024

/**
 * Answers with a stream of changes, one JSON object a line: from `resourceVersion` on, or from the present state (first
 * an ADDED for every object). Bookmarks are not sent; a server may leave them out.
 */
export function watchObjects(call: ApiCall): void {
  const { api, query, resource, response } = call
  const selected = selection(call)
  if (flag(query, 'sendInitialEvents')) {
    // The answer of an API server without this feature: clients then list first.
    const detail = 'sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled'
    throw invalid({ name: '', kind: 'ListOptions', group: 'meta.k8s.io' }, '', [
      { reason: 'FieldValueForbidden', field: 'sendInitialEvents', message: `Forbidden: ${detail}` },
    ])
  }
  const revision = revisionOf(call)
  let headers = true
  const write = (type: string, object: unknown): void => {
    if (response.writable) response.write(`${JSON.stringify({ type, object })}\n`)
  }
  const shaped = (object: Stored): unknown => {
    if (!call.asTable) return inVersionOf(resource, object)
    const { resourceVersion } = object.metadata
    const table = tableOf(resource.name, [object], { resourceVersion }, { ...tableOptions(call), headers })
    headers = false
    return table
  }
  const forward = (event: StoreEvent): void => {
    const seen = transition(event, selected)
    if (seen) write(seen.type, shaped(seen.object))
  }

  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' })
  try {
    if (revision > 0) for (const event of api.store.since(resource.name, revision)) forward(event)
    else {
      for (const object of api.store.list(resource.name, call.namespace))
        if (selected(object)) write('ADDED', shaped(object))
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
    clearTimeout(timeout)
    call.closing.removeEventListener('abort', end)
  }
  const end = (): void => {
    stop()
    response.end()
  }
  const unsubscribe = api.store.subscribe((event) => {
    if (event.resource !== resource.name) return
    forward(event)
    // A client that doesn't read is disconnected, as in Kubernetes; it reconnects with its last version.
    if (response.writableLength > backlogLimit) response.destroy()
  })
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
): Pick<StoreEvent, 'type' | 'object'> | undefined {
  const now = type !== 'DELETED' && selected(object)
  const before = previous !== undefined && selected(previous)
  if (now) return { type: before ? 'MODIFIED' : 'ADDED', object }
  if (!before || !previous) return undefined
  // As Kubernetes does, the last state that the client knew, with the revision of the change.
  const last = type === 'DELETED' ? object : previous
  const { resourceVersion } = object.metadata
  return { type: 'DELETED', object: { ...last, metadata: { ...last.metadata, resourceVersion } } }
}
