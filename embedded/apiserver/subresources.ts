import { pipeline } from 'node:stream/promises'
import type { V1LabelSelector, V1Pod } from '@kubernetes/client-node'
import type { Api } from './api.ts'
import { type ApiCall, flag, number } from './api-call.ts'
import { readBody, sendObject } from './http-messages.ts'
import type { JsonObject } from './json.ts'
import { found } from './read-objects.ts'
import { badRequest } from './status-error.ts'
import type { KubeObject, Stored } from './store.ts'
import { fieldsAt } from './strategy.ts'
import { deleteOptions, requestedObject, writeOptions } from './write-objects.ts'

interface Scalable {
  spec?: { replicas?: number; selector?: V1LabelSelector }
  status?: { replicas?: number }
}

const scaleKind = { kind: 'Scale', group: 'autoscaling', version: 'v1', schema: 'V1Scale' }
const evictionKind = { kind: 'Eviction', group: 'policy', version: 'v1', schema: 'V1Eviction' }

/** PUT and PATCH of `scale`. */
export async function updateScale(call: ApiCall): Promise<object> {
  const scale = await requestedObject(call, scaleKind, () => scaleOf(found(call)))
  const { uid, resourceVersion } = scale.metadata
  const object = found(call)
  const next = {
    ...object,
    metadata: { ...object.metadata, uid, resourceVersion },
    spec: { ...(object.spec as object), replicas: (scale as Scalable).spec?.replicas ?? 0 },
  }
  return scaleOf(call.api.update(call.resource.name, next, undefined, writeOptions(call)))
}

/** The number of replicas of an object, as autoscaling/v1. */
export function scaleOf(object: Stored): JsonObject {
  const { name, namespace = '', uid, resourceVersion, creationTimestamp } = object.metadata
  const { spec, status }: Scalable = object as Stored & Scalable
  const labels = Object.entries(spec?.selector?.matchLabels ?? {}).map(
    ([key, value]) => `${key}=${value}`,
  )
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { replicas: spec?.replicas ?? 0 },
    status: { replicas: status?.replicas ?? 0, selector: labels.join(',') },
  }
}

/** POST of `eviction` (`kubectl drain`): without disruption budgets, a graceful delete. */
export async function evict(call: ApiCall): Promise<object> {
  const { api, namespace, name = '' } = call
  const eviction: Stored & { deleteOptions?: JsonObject } = await requestedObject(
    call,
    evictionKind,
  )
  api.delete(call.resource.name, namespace, name, deleteOptions(call, eviction.deleteOptions ?? {}))
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 }
}

/**
 * POST of `nodes/NAME/script`: runs the body, a shell script, to its end. Unlike `exec` it needs no
 * separate connection or shell.
 */
export async function runNodeScript({
  backend,
  request,
  response,
  name = '',
}: ApiCall): Promise<undefined> {
  sendObject(response, 200, await backend.script(name, String(await readBody(request))))
}

/** GET of `nodes/NAME/synced`: responds when the node's kube-proxy has no pending changes. */
export async function waitForSyncedNode({ backend, name = '' }: ApiCall): Promise<object> {
  await backend.synced(name)
  return {}
}

/** GET of a container's log as plain text, limited by the query. */
export async function streamPodLog(call: ApiCall): Promise<undefined> {
  const { api, backend, query, response, namespace = '', name = '' } = call
  found(call)
  const container = containerOf(api, namespace, name, query.get('container'))
  const log = await backend.logs({
    namespace,
    name,
    container,
    follow: flag(query, 'follow'),
    previous: flag(query, 'previous'),
    timestamps: flag(query, 'timestamps'),
    tailLines: number(query, 'tailLines'),
    sinceSeconds: number(query, 'sinceSeconds') ?? sinceTime(query),
    limitBytes: number(query, 'limitBytes'),
  })
  response.writeHead(200, { 'content-type': 'text/plain', 'cache-control': 'no-cache, private' })
  // Headers are sent immediately, because the container may print nothing for a long time.
  response.flushHeaders()
  // Ends with the log or the client's connection.
  await pipeline(log, response).catch(() => {})
}

/**
 * The container that a request means: the named one, or the only one. Throws 400 if the name is
 * wrong or missing.
 */
export function containerOf(
  api: Api,
  namespace: string,
  name: string,
  asked: string | null,
): string {
  const spec = api.get<KubeObject & Pick<V1Pod, 'spec'>>('pods', namespace, name)?.spec
  const namesOf = (list: string) =>
    fieldsAt(spec, `${list}[].name`).map(({ value }) => String(value))
  const [names, init] = [namesOf('containers'), namesOf('initContainers')]
  if (asked) {
    if ([...names, ...init, ...namesOf('ephemeralContainers')].includes(asked)) return asked
    throw badRequest(`container ${asked} is not valid for pod ${name}`)
  }
  if (names.length === 1 && names[0] !== undefined) return names[0]
  const initText = init.length > 0 ? ` or one of the init containers: [${init.join(' ')}]` : ''
  throw badRequest(
    `a container name must be specified for pod ${name}, choose one of: [${names.join(' ')}]${initText}`,
  )
}

function sinceTime(query: URLSearchParams): number | undefined {
  const time = Date.parse(query.get('sinceTime') ?? '')
  return Number.isNaN(time) ? undefined : Math.max(0, Math.ceil((Date.now() - time) / 1000))
}
