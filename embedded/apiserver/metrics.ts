import type { ServerResponse } from 'node:http'
import type { ClusterApi } from './cluster-api.ts'
import type { NodeBackend, Usage } from './node-backend.ts'
import { timestamp } from './object-birth.ts'
import { sendObject } from './reply.ts'
import { resourceNamed } from './resource.ts'
import type { Unstored } from './served.ts'
import { notFound } from './status-error.ts'

/** GET of metrics.k8s.io (`kubectl top`): what nodes or Pods use now, measured over a second. */
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
