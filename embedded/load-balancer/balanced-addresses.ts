import { isReady } from '../controllers/node-condition.ts'
import type { Node, Service } from '../controllers/resources.ts'
import type { BalancedAddress } from './routes.ts'

/** One question to a node: does it hold a ready endpoint of this Service (Service.spec.healthCheckNodePort)? */
export interface HealthCheck {
  node: string
  port: number
}

export const healthKey = ({ node, port }: HealthCheck): string => `${node}:${port}`

const isLocal = ({ spec }: Service) => spec.externalTrafficPolicy === 'Local' && (spec.healthCheckNodePort ?? 0) > 0

/** IPv4 addresses that a Service was given; those of `ipMode: Proxy` belong to a proxy that is not here. */
function addressesOf({ spec, status }: Service): string[] {
  if (spec.type !== 'LoadBalancer') return []
  const ingress = status?.loadBalancer?.ingress ?? []
  return ingress.flatMap(({ ip, ipMode }) => (ip && ipMode !== 'Proxy' && !ip.includes(':') ? [ip] : []))
}

/** InternalIPs of the nodes that are Ready and not labelled out of load balancing, in the order of their names. */
function nodeAddresses(nodes: readonly Node[]): string[] {
  return nodes
    .filter(
      (node) =>
        isReady(node) && !('node.kubernetes.io/exclude-from-external-load-balancers' in (node.metadata.labels ?? {})),
    )
    .flatMap(
      ({ status }) =>
        status?.addresses?.filter(({ type }) => type === 'InternalIP').map(({ address }) => address) ?? [],
    )
}

/** The questions to be asked before traffic may be sent: one a node for each Service with externalTrafficPolicy Local. */
export function healthChecks(services: readonly Service[], nodes: readonly Node[]): HealthCheck[] {
  const ports = services.filter((one) => isLocal(one) && addressesOf(one).length > 0)
  return ports.flatMap(({ spec }) =>
    nodeAddresses(nodes).map((node) => ({ node, port: spec.healthCheckNodePort ?? 0 })),
  )
}

/**
 * Which nodes take the traffic of each load balancer address: all that are Ready, or for externalTrafficPolicy Local those
 * whose health check answered 200 (`healthy` holds their keys).
 */
export function balancedAddresses(
  services: readonly Service[],
  nodes: readonly Node[],
  healthy: ReadonlySet<string>,
): BalancedAddress[] {
  const ready = nodeAddresses(nodes)
  return services.flatMap((service) => {
    const port = service.spec.healthCheckNodePort ?? 0
    const takers = isLocal(service) ? ready.filter((node) => healthy.has(healthKey({ node, port }))) : ready
    return addressesOf(service).map((address) => ({ address, nodes: takers }))
  })
}
