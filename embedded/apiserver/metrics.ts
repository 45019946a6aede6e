import type { Api } from './api.ts'
import type { NodeBackend, Usage } from './api-call.ts'
import { timestamp } from './object-lifecycle.ts'
import { type MetricsTarget, resourceNamed } from './resource.ts'
import { notFound } from './status-error.ts'

const quantities = ({ nanocores, kibibytes }: Usage) => ({
  cpu: `${nanocores}n`,
  memory: `${kibibytes}Ki`,
})

/**
 * `kubectl top`: the current usage of nodes or Pods, measured over one second, or of the one that
 * is named (404 if it is missing).
 */
export async function metricsOf(
  api: Api,
  backend: NodeBackend,
  { resource, namespace, name }: MetricsTarget,
  query: URLSearchParams,
): Promise<object> {
  const { seconds, nodes, pods } = await backend.usage()
  const { kind, group, version } = resource
  const apiVersion = `${group}/${version}`
  const [labelSelector, fieldSelector] = [query.get('labelSelector'), query.get('fieldSelector')]
  const items = api
    .list(resource.name, { namespace, labelSelector, fieldSelector })
    .filter(({ metadata }) => name === undefined || metadata.name === name)
    .flatMap(({ metadata: { name, namespace, uid, labels } }) => {
      const measured = resource.name === 'nodes' ? nodes.get(name) : pods.get(uid)
      if (!measured) return []
      const usage =
        'nanocores' in measured
          ? { usage: quantities(measured) }
          : {
              containers: [...measured].map(([container, used]) => ({
                name: container,
                usage: quantities(used),
              })),
            }
      const time = timestamp()
      const metadata = { name, namespace, labels, creationTimestamp: time }
      return [{ kind, apiVersion, metadata, timestamp: time, window: `${seconds}s`, ...usage }]
    })
  if (name === undefined) return { kind: `${kind}List`, apiVersion, metadata: {}, items }
  const [item] = items
  if (!item) throw notFound({ ...resourceNamed(resource.name), group }, name)
  return item
}
