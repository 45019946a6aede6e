import type { Api } from '../apiserver/api.ts'
import { isNodeReady, type Node, type Service } from '../controllers/resources.ts'
import { SyncLoop } from '../kube-proxy/sync-loop.ts'
import type { Machine } from '../machine/machine.ts'
import { httpRequest, Prober, statusOf } from '../network/prober.ts'
import { ipBatch, runInGuest } from '../network/topology.ts'

/** A health check of a node: whether it has a ready endpoint of this Service (Service.spec.healthCheckNodePort). */
export interface HealthCheck {
  node: string
  port: number
}

export const healthKey = ({ node, port }: HealthCheck): string => `${node}:${port}`

const isLocal = ({ spec }: Service) => spec.externalTrafficPolicy === 'Local' && (spec.healthCheckNodePort ?? 0) > 0

/** The IPv4 addresses of a Service, without those with `ipMode: Proxy`, which belong to another proxy. */
function addressesOf({ spec, status }: Service): string[] {
  if (spec.type !== 'LoadBalancer') return []
  const ingress = status?.loadBalancer?.ingress ?? []
  return ingress.flatMap(({ ip, ipMode }) => (ip && ipMode !== 'Proxy' && !ip.includes(':') ? [ip] : []))
}

/** InternalIPs of the nodes that are Ready and not excluded from load balancing by a label, in the order of their names. */
function nodeAddresses(nodes: readonly Node[]): string[] {
  return nodes
    .filter(
      (node) =>
        isNodeReady(node) &&
        !('node.kubernetes.io/exclude-from-external-load-balancers' in (node.metadata.labels ?? {})),
    )
    .flatMap(
      ({ status }) =>
        status?.addresses?.filter(({ type }) => type === 'InternalIP').map(({ address }) => address) ?? [],
    )
}

/** The required health checks: one per node for each Service with externalTrafficPolicy Local. */
export function healthChecks(services: readonly Service[], nodes: readonly Node[]): HealthCheck[] {
  const ports = services.filter((one) => isLocal(one) && addressesOf(one).length > 0)
  return ports.flatMap(({ spec }) =>
    nodeAddresses(nodes).map((node) => ({ node, port: spec.healthCheckNodePort ?? 0 })),
  )
}

/**
 * The nodes for the traffic of each load balancer address: all that are Ready, or for externalTrafficPolicy Local those
 * whose health check returned 200 (`healthy` contains their keys).
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

/** Interval of the health checks; cloud load balancers query them every few seconds. */
const healthIntervalMs = 1000
const healthTimeoutSeconds = 1

/**
 * The load balancer in front of the cluster: in the guest's own network, which is "outside", it maintains a route for each load
 * balancer address to the nodes that receive its traffic. kube-proxy handles the packets on the nodes.
 */
export class LoadBalancer {
  private readonly machine: Machine
  private readonly api: Api
  private readonly prober: Prober
  private readonly loop: SyncLoop
  private readonly endWatches: (() => void)[]
  private present: readonly BalancedAddress[] = []

  constructor(machine: Machine, api: Api) {
    this.machine = machine
    this.api = api
    this.prober = new Prober(machine, {})
    this.loop = new SyncLoop({
      minIntervalMs: 0,
      burst: 1,
      maxIntervalMs: healthIntervalMs,
      retryMs: healthIntervalMs,
      sync: () => this.balance(),
      // The guest is busy or shutting down; the next round retries.
      onError: () => {},
    })
    this.endWatches = ['services', 'nodes', 'endpointslices'].map((resource) =>
      api.watch(resource, () => this.loop.request()),
    )
  }

  async stop(): Promise<void> {
    for (const end of this.endWatches) end()
    await Promise.all([this.loop.stop(), this.prober.stop()])
  }

  private async balance(): Promise<void> {
    const services = this.api.list<Service>('services')
    const nodes = this.api.list<Node>('nodes')
    const wanted = balancedAddresses(services, nodes, await this.healthy(services, nodes))
    const lines = routeLines(this.present, wanted)
    if (lines.length > 0) await runInGuest(this.machine, ipBatch(lines))
    this.present = wanted
  }

  /** Queries all health checks in parallel. */
  private async healthy(services: readonly Service[], nodes: readonly Node[]): Promise<Set<string>> {
    const checks = healthChecks(services, nodes)
    const answers = await Promise.all(
      checks.map(({ node, port }) =>
        this.prober.try(node, port, healthTimeoutSeconds, httpRequest('/healthz', `${node}:${port}`)),
      ),
    )
    return new Set(checks.filter((_, index) => statusOf(answers[index]?.line ?? '') === 200).map(healthKey))
  }
}

/** The nodes for one address of a load balancer. */
export interface BalancedAddress {
  address: string
  /** Addresses of the nodes that receive its traffic; if there are none, packets are rejected. */
  nodes: readonly string[]
}

/**
 * Lines for `ip -batch` that change the present routes into the wanted ones. A route to several nodes distributes
 * connections over them (ECMP), like a router in front of a cluster; there are no lines for unchanged addresses.
 */
export function routeLines(present: readonly BalancedAddress[], wanted: readonly BalancedAddress[]): string[] {
  const key = ({ nodes }: BalancedAddress) => nodes.join(' ')
  const before = new Map(present.map((one) => [one.address, one]))
  const lines: string[] = []
  for (const one of wanted) {
    const old = before.get(one.address)
    before.delete(one.address)
    if (old && key(old) === key(one)) continue
    if (one.nodes.length === 0) lines.push(`route replace unreachable ${one.address}/32`)
    else lines.push(`route replace ${one.address}/32 ${one.nodes.map((node) => `nexthop via ${node}`).join(' ')}`)
  }
  return [...lines, ...[...before.keys()].map((address) => `route flush exact ${address}/32`)]
}
