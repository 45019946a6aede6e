import type { Api } from '../apiserver/api.ts'
import { hasReadyCondition, type NodeObject, type ServiceObject } from '../controllers/resources.ts'
import { SyncLoop } from '../kube-proxy/sync-loop.ts'
import type { Machine } from '../machine/machine.ts'
import { httpRequest, httpStatus, Prober } from '../network/prober.ts'
import { ipBatch, runInGuest } from '../network/topology.ts'

const isLocal = ({ spec }: ServiceObject) =>
  spec.externalTrafficPolicy === 'Local' && (spec.healthCheckNodePort ?? 0) > 0

/**
 * The IPv4 addresses of a Service, without those with `ipMode: Proxy`, which belong to another
 * proxy.
 */
function addressesOf({ spec, status }: ServiceObject): string[] {
  if (spec.type !== 'LoadBalancer') return []
  const ingress = status?.loadBalancer?.ingress ?? []
  return ingress.flatMap(({ ip, ipMode }) =>
    ip && ipMode !== 'Proxy' && !ip.includes(':') ? [ip] : [],
  )
}

const excluded = 'node.kubernetes.io/exclude-from-external-load-balancers'

/**
 * InternalIPs of the nodes that are Ready and not excluded from load balancing by a label, in the
 * order of their names.
 */
function nodeAddresses(nodes: readonly NodeObject[]): string[] {
  return nodes
    .filter((node) => hasReadyCondition(node) && !(excluded in (node.metadata.labels ?? {})))
    .flatMap(({ status }) => status?.addresses?.filter(({ type }) => type === 'InternalIP') ?? [])
    .map(({ address }) => address)
}

/**
 * Where a node answers whether it has a ready endpoint of a Service: `address:port`
 * (Service.spec.healthCheckNodePort).
 */
const healthCheck = (node: string, { spec }: ServiceObject): string =>
  `${node}:${spec.healthCheckNodePort}`

/** The required health checks: one per node for each Service with externalTrafficPolicy Local. */
export function requiredHealthChecks(
  services: readonly ServiceObject[],
  nodes: readonly NodeObject[],
): string[] {
  const local = services.filter((service) => isLocal(service) && addressesOf(service).length > 0)
  return local.flatMap((service) => nodeAddresses(nodes).map((node) => healthCheck(node, service)))
}

/**
 * The nodes for the traffic of each address: all that are Ready, or for externalTrafficPolicy Local
 * those in `healthy`.
 */
export function balancedAddresses(
  services: readonly ServiceObject[],
  nodes: readonly NodeObject[],
  healthy: ReadonlySet<string>,
): BalancedAddress[] {
  const ready = nodeAddresses(nodes)
  return services.flatMap((service) => {
    const takers = isLocal(service)
      ? ready.filter((node) => healthy.has(healthCheck(node, service)))
      : ready
    return addressesOf(service).map((address) => ({ address, nodes: takers }))
  })
}

/** Interval of the health checks; cloud load balancers query them every few seconds. */
const healthIntervalMs = 1000
const healthTimeoutSeconds = 1

/**
 * The load balancer: routes of the guest's own network, "outside", lead each address to the nodes;
 * kube-proxy handles the packets there.
 */
export class LoadBalancer {
  readonly #machine: Machine
  readonly #api: Api
  readonly #prober: Prober
  readonly #loop: SyncLoop
  readonly #endWatches: (() => void)[]
  #present: readonly BalancedAddress[] = []

  constructor(machine: Machine, api: Api) {
    this.#machine = machine
    this.#api = api
    this.#prober = new Prober(machine, {})
    this.#loop = new SyncLoop({
      minIntervalMs: 0,
      burst: 1,
      maxIntervalMs: healthIntervalMs,
      retryMs: healthIntervalMs,
      sync: () => this.#balance(),
      // The guest is busy or shutting down; the next round retries.
      onError: () => {},
    })
    this.#endWatches = ['services', 'nodes', 'endpointslices'].map((resource) =>
      api.watch(resource, () => this.#loop.request()),
    )
  }

  async stop(): Promise<void> {
    for (const end of this.#endWatches) end()
    await Promise.all([this.#loop.stop(), this.#prober.stop()])
  }

  async #balance(): Promise<void> {
    const services = this.#api.list<ServiceObject>('services')
    const nodes = this.#api.list<NodeObject>('nodes')
    const wanted = balancedAddresses(services, nodes, await this.#healthy(services, nodes))
    const lines = routeLines(this.#present, wanted)
    if (lines.length > 0) await runInGuest(this.#machine, ipBatch(lines))
    this.#present = wanted
  }

  /** Queries all health checks in parallel; those that returned 200. */
  async #healthy(
    services: readonly ServiceObject[],
    nodes: readonly NodeObject[],
  ): Promise<Set<string>> {
    const checks = requiredHealthChecks(services, nodes)
    const answers = await Promise.all(
      checks.map((check) => {
        const [host = '', port] = check.split(':')
        return this.#prober.try(
          host,
          Number(port),
          healthTimeoutSeconds,
          httpRequest('/healthz', check),
        )
      }),
    )
    return new Set(checks.filter((_, index) => httpStatus(answers[index]?.line ?? '') === 200))
  }
}

/** The nodes for one address of a load balancer. */
export interface BalancedAddress {
  address: string
  /** Addresses of the nodes that receive its traffic; if there are none, packets are rejected. */
  nodes: readonly string[]
}

/**
 * Lines for `ip -batch` that change the routes. One to several nodes distributes connections
 * (ECMP), like a router before a cluster.
 */
export function routeLines(
  present: readonly BalancedAddress[],
  wanted: readonly BalancedAddress[],
): string[] {
  const before = new Map(present.map(({ address, nodes }) => [address, nodes.join()]))
  const kept = new Set(wanted.map(({ address }) => address))
  const changed = wanted.filter(({ address, nodes }) => before.get(address) !== nodes.join())
  return [
    ...changed.map(({ address, nodes }) => {
      if (nodes.length === 0) return `route replace unreachable ${address}/32`
      return `route replace ${address}/32 ${nodes.map((node) => `nexthop via ${node}`).join(' ')}`
    }),
    ...[...before.keys()]
      .filter((address) => !kept.has(address))
      .map((address) => `route flush exact ${address}/32`),
  ]
}
