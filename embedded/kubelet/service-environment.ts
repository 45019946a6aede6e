import type { Api } from '../apiserver/api.ts'
import type { Service } from '../controllers/resources.ts'

/** The variables that tell a Pod of the Services of its namespace (docs: "Environment variables" of Services). */
export function serviceEnvironment(api: Api, namespace: string | undefined, links: boolean): Record<string, string> {
  const result: Record<string, string> = {}
  const own = links ? api.list<Service>('services', namespace === undefined ? {} : { namespace }) : []
  const kubernetes = api.get<Service>('services', 'default', 'kubernetes')
  const all = kubernetes ? [kubernetes, ...own] : own
  for (const { metadata, spec } of all) {
    const { clusterIP, ports = [] } = spec
    const [first] = ports
    if (!clusterIP || clusterIP === 'None' || !first) continue
    const prefix = metadata.name.toUpperCase().replaceAll('-', '_')
    result[`${prefix}_SERVICE_HOST`] = clusterIP
    result[`${prefix}_SERVICE_PORT`] = String(first.port)
    result[`${prefix}_PORT`] = `${(first.protocol ?? 'TCP').toLowerCase()}://${clusterIP}:${first.port}`
    for (const { name, port } of ports)
      if (name) result[`${prefix}_SERVICE_PORT_${name.toUpperCase().replaceAll('-', '_')}`] = String(port)
  }
  return result
}
