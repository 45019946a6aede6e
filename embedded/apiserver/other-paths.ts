import type { IncomingMessage, ServerResponse } from 'node:http'
import type { NodeBackend, Usage } from './api-call.ts'
import type { ClusterApi } from './cluster-api.ts'
import { aggregatedDiscovery, coreVersions, groupDocument, groupList, resourceList, versionInfo } from './discovery.ts'
import { send, sendObject } from './http-messages.ts'
import { timestamp } from './object-lifecycle.ts'
import { openApiIndex, openApiV2, openApiV3 } from './openapi.ts'
import { resourceNamed } from './resource.ts'
import type { Schema } from './schema.ts'
import type { Unstored } from './served.ts'
import { methodNotAllowed, notFound, unknownPath } from './status-error.ts'

/** GET of metrics.k8s.io (`kubectl top`): the current usage of nodes or Pods, measured over one second. */
export async function serveMetrics(call: {
  api: ClusterApi
  backend: NodeBackend
  response: ServerResponse
  query: URLSearchParams
  now: () => Date
  resource: Unstored
  namespace?: string
  name?: string
}): Promise<void> {
  const { api, backend, response, query, resource, namespace, name } = call
  const { seconds, nodes, pods } = await backend.usage()
  const quantities = ({ nanocores, kibibytes }: Usage) => ({ cpu: `${nanocores}n`, memory: `${kibibytes}Ki` })
  const selected = api
    .list(resource.name, {
      ...(namespace && { namespace }),
      ...(query.get('labelSelector') && { labelSelector: query.get('labelSelector') ?? '' }),
      ...(query.get('fieldSelector') && { fieldSelector: query.get('fieldSelector') ?? '' }),
    })
    .filter(({ metadata }) => name === undefined || metadata.name === name)
  const apiVersion = `${resource.group}/${resource.version}`
  const items = selected.flatMap(({ metadata: { name, namespace, uid, labels } }) => {
    const measured = resource.name === 'nodes' ? nodes.get(name) : pods.get(uid)
    if (!measured) return []
    const usage =
      'nanocores' in measured
        ? { usage: quantities(measured) }
        : { containers: [...measured].map(([container, used]) => ({ name: container, usage: quantities(used) })) }
    const metadata = { name, ...(namespace && { namespace }), labels, creationTimestamp: timestamp(call.now()) }
    const about = { timestamp: timestamp(call.now()), window: `${seconds}s` }
    return [{ kind: resource.kind, apiVersion, metadata, ...about, ...usage }]
  })
  if (name === undefined) sendObject(response, 200, { kind: `${resource.kind}List`, apiVersion, metadata: {}, items })
  else if (items[0]) sendObject(response, 200, items[0])
  else throw notFound({ ...resourceNamed(resource.name), group: resource.group }, name)
}

const aggregatedType = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
const healthPaths = /^\/(healthz|livez|readyz)(\/.*)?$/

/** Discovery, version, health and OpenAPI. */
export async function serveOther(call: {
  path: string
  request: IncomingMessage
  response: ServerResponse
  schema: Schema
}): Promise<void> {
  const { request, response, schema } = call
  if (request.method !== 'GET' && request.method !== 'HEAD') throw methodNotAllowed()
  const path = call.path.replace(/\/+$/, '') || '/'
  if (healthPaths.test(path)) {
    send(response, 200, 'text/plain; charset=utf-8', 'ok')
    return
  }
  if ((path === '/api' || path === '/apis') && wantsAggregated(request)) {
    const headers = { vary: 'Accept' }
    send(response, 200, aggregatedType, `${JSON.stringify(aggregatedDiscovery(path === '/api'))}\n`, headers)
    return
  }
  if (path === '/openapi/v2' && (request.headers.accept ?? '').includes('proto-openapi')) {
    // An empty document: older kubectl reads OpenAPI v2 only in this form, and skips kinds that it doesn't find.
    send(response, 200, 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf', emptyOpenApi)
    return
  }
  const document = await documentAt(path, schema)
  if (!document) throw unknownPath()
  sendObject(response, 200, document)
}

/** Field 1 of the Document message, the version, is the text `2.0`. */
const emptyOpenApi = Buffer.from([0x0a, 0x03, ...Buffer.from('2.0')])

async function documentAt(path: string, schema: Schema): Promise<object | undefined> {
  const [, root, ...rest] = path.split('/')
  const tail = rest.join('/')
  switch (root) {
    case '':
      return { paths: ['/api', '/apis', '/healthz', '/livez', '/openapi/v2', '/openapi/v3', '/readyz', '/version'] }
    case 'version':
      return rest.length === 0 ? versionInfo() : undefined
    case 'api':
      return rest.length === 0 ? coreVersions() : tail === 'v1' ? resourceList('v1') : undefined
    case 'apis':
      if (rest.length === 0) return groupList()
      return rest.length === 1 ? groupDocument(tail) : rest.length === 2 ? resourceList(tail) : undefined
    case 'openapi':
      if (tail === 'v2') return openApiV2(schema)
      if (tail === 'v3') return openApiIndex()
      return tail.startsWith('v3/') ? openApiV3(schema, tail.replace(/^v3\/(api|apis)\//, '')) : undefined
    default:
      return undefined
  }
}

function wantsAggregated(request: IncomingMessage): boolean {
  return (request.headers.accept ?? '').split(',').some((entry) => entry.replaceAll(' ', '') === aggregatedType)
}
