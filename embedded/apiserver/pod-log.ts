import type { V1Pod } from '@kubernetes/client-node'
import { type ApiCall, flag, number } from './api-call.ts'
import { badRequest, notFound } from './status-error.ts'
import type { Store } from './store.ts'

/** GET of a container's log as plain text, as far back and as long as the query says. */
export async function servePodLog(call: ApiCall): Promise<void> {
  const { api, backend, query, response, resource, namespace = '', name = '' } = call
  if (!api.store.get('pods', namespace, name)) throw notFound(resource, name)
  const container = containerOf(api.store, namespace, name, query.get('container') || undefined)
  const sinceSeconds = number(query, 'sinceSeconds') ?? sinceTime(query, call.now())
  const tailLines = number(query, 'tailLines')
  const limitBytes = number(query, 'limitBytes')
  const log = await backend.logs({
    namespace,
    name,
    container,
    follow: flag(query, 'follow'),
    previous: flag(query, 'previous'),
    timestamps: flag(query, 'timestamps'),
    ...(tailLines !== undefined && { tailLines }),
    ...(sinceSeconds !== undefined && { sinceSeconds }),
    ...(limitBytes !== undefined && { limitBytes }),
  })
  response.writeHead(200, { 'content-type': 'text/plain', 'cache-control': 'no-cache, private' })
  // A follower must see the stream begin even when the container says nothing for long.
  response.flushHeaders()
  const stop = (): void => {
    log.destroy()
    response.end()
  }
  call.closing.addEventListener('abort', stop)
  response.on('close', () => {
    call.closing.removeEventListener('abort', stop)
    log.destroy()
  })
  log.on('error', () => response.end())
  log.pipe(response)
}

/**
 * The container that a request means: the named one, or the only one. 400 as Kubernetes words it when the name is wrong
 * or missing.
 */
export function containerOf(store: Store, namespace: string, name: string, asked: string | undefined): string {
  const pod = store.get('pods', namespace, name) as Pick<V1Pod, 'spec'> | undefined
  const names = (pod?.spec?.containers ?? []).map((container) => container.name)
  const init = (pod?.spec?.initContainers ?? []).map((container) => container.name)
  if (asked !== undefined) {
    const ephemeral = (pod?.spec?.ephemeralContainers ?? []).map((container) => container.name)
    if ([...names, ...init, ...ephemeral].includes(asked)) return asked
    throw badRequest(`container ${asked} is not valid for pod ${name}`)
  }
  if (names.length === 1 && names[0] !== undefined) return names[0]
  const initText = init.length > 0 ? ` or one of the init containers: [${init.join(' ')}]` : ''
  throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${names.join(' ')}]${initText}`)
}

function sinceTime(query: URLSearchParams, now: Date): number | undefined {
  const time = Date.parse(query.get('sinceTime') ?? '')
  return Number.isNaN(time) ? undefined : Math.max(0, Math.ceil((now.getTime() - time) / 1000))
}
