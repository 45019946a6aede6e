import type { Api } from '../apiserver/api.ts'
import type { Node, Service } from '../controllers/resources.ts'
import type { Machine } from '../machine/machine.ts'
import type { Network } from '../network/topology.ts'
import { balancedAddresses, healthChecks, healthKey } from './balanced-addresses.ts'
import { type BalancedAddress, routeLines } from './routes.ts'

/** A load balancer asks again after this long, as cloud ones do every few seconds. */
const healthIntervalMs = 2000
const healthTimeoutMs = 1000
/** Polls more often for a while after a change, because kube-proxy needs less than a second. */
const restlessMs = 3000
const restlessIntervalMs = 300

/**
 * Plays the load balancer in front of the cluster: in the guest's own network, which is "outside", it keeps a route for each
 * address that a Service was given, towards the nodes that may take its traffic. What a node does with the packet is
 * kube-proxy's part, as anywhere.
 */
export function startLoadBalancer(options: { machine: Machine; network: Network; api: Api }): { stop(): void } {
  const balancer = new LoadBalancer(options)
  return { stop: () => balancer.stop() }
}

class LoadBalancer {
  private readonly machine: Machine
  private readonly network: Network
  private readonly api: Api
  private readonly endWatches: (() => void)[]
  private present: BalancedAddress[] = []
  private timer: NodeJS.Timeout | undefined
  private working = false
  private again = false
  private stopped = false
  private changedAt = 0

  constructor({ machine, network, api }: { machine: Machine; network: Network; api: Api }) {
    this.machine = machine
    this.network = network
    this.api = api
    this.endWatches = ['services', 'nodes', 'endpointslices'].map((resource) =>
      api.watch(resource, () => {
        if (resource !== 'nodes') this.changedAt = Date.now()
        this.request()
      }),
    )
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
    for (const end of this.endWatches) end()
  }

  private request(): void {
    if (this.stopped) return
    if (this.working) this.again = true
    else void this.work()
  }

  private async work(): Promise<void> {
    this.working = true
    clearTimeout(this.timer)
    try {
      await this.balance()
    } catch {
      // The guest is busy or on its way down; the next round tries again.
    }
    this.working = false
    const services = this.api.list<Service>('services')
    if (this.stopped) return
    if (this.again) {
      this.again = false
      this.request()
    } else if (services.some(({ spec }) => spec.externalTrafficPolicy === 'Local' && spec.healthCheckNodePort)) {
      const restless = Date.now() - this.changedAt < restlessMs
      this.timer = setTimeout(() => this.request(), restless ? restlessIntervalMs : healthIntervalMs)
    }
  }

  private async balance(): Promise<void> {
    const services = this.api.list<Service>('services')
    const nodes = this.api.list<Node>('nodes')
    const wanted = balancedAddresses(services, nodes, await this.healthy(services, nodes))
    const lines = routeLines(this.present, wanted)
    if (lines.length > 0) await this.network.worker.perform({ links: lines })
    this.present = wanted
  }

  /** Asks every health check at once. */
  private async healthy(services: readonly Service[], nodes: readonly Node[]): Promise<Set<string>> {
    const keys = healthChecks(services, nodes).map(healthKey)
    const statuses = await Promise.all(
      keys.map((key) => this.machine.status(`http://${key}/healthz`, healthTimeoutMs).catch(() => undefined)),
    )
    return new Set(keys.filter((_, index) => statuses[index] === 200))
  }
}
