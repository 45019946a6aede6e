import { type AddressPool, chooseAddress, isInPool } from '../../host/address-pool.ts'
import { type ControllerContext, writeStatus } from '../controllers/context.ts'
import { EventRecorder } from '../controllers/events.ts'
import type { ServiceObject } from '../controllers/resources.ts'

/** A Service whose status must change to another address, or to none. */
interface Assignment {
  service: ServiceObject
  ip: string | undefined
  /** Why there is no address, for a Service that needs one. */
  fault?: string
}

const assignedAddress = ({ status }: ServiceObject): string | undefined =>
  status?.loadBalancer?.ingress?.[0]?.ip

const wantsAddress = ({ spec, metadata }: ServiceObject) =>
  spec.type === 'LoadBalancer' && !spec.loadBalancerClass && !metadata.deletionTimestamp

/** The changes that give each Service of type LoadBalancer, and no other, its own address of the pool. */
export function assignments(services: readonly ServiceObject[], pool: AddressPool): Assignment[] {
  const owners = new Map<string, ServiceObject>()
  for (const service of services.filter(wantsAddress)) {
    const current = assignedAddress(service)
    if (current && !owners.has(current)) owners.set(current, service)
  }
  const changes: Assignment[] = []
  for (const service of services) {
    const existing = assignedAddress(service)
    if (wantsAddress(service)) {
      const taken = [...owners].filter(([, owner]) => owner !== service).map(([ip]) => ip)
      const choice = chooseAddress(pool, service.spec.loadBalancerIP, existing, new Set(taken))
      if (choice.ip !== undefined) owners.set(choice.ip, service)
      if (choice.ip === undefined || choice.ip !== existing) changes.push({ service, ...choice })
    } else if (existing && isInPool(pool, existing) && !service.spec.loadBalancerClass)
      changes.push({ service, ip: undefined })
  }
  return changes
}

/** Assigns addresses of the pool to Services of type LoadBalancer, and takes them back when the type changes. */
export function startAddressController(context: ControllerContext, pool: AddressPool): void {
  const { api } = context
  const recorder = new EventRecorder(api, 'service-controller')
  const queue = context.queue(() => {
    for (const { service, ip, fault } of assignments(api.list('services'), pool)) {
      const loadBalancer = ip === undefined ? {} : { ingress: [{ ip, ipMode: 'VIP' }] }
      writeStatus(api, 'services', service, { ...service.status, loadBalancer })
      const failed = `Error syncing load balancer: failed to ensure load balancer: ${fault}`
      if (fault) recorder.event(service, 'Warning', 'SyncLoadBalancerFailed', failed)
      else if (ip) recorder.event(service, 'Normal', 'EnsuredLoadBalancer', 'Ensured load balancer')
    }
  })
  context.watch<ServiceObject>('services', (_type, service, previous) => {
    const concerned = [service, previous].some(
      (state) => state && (wantsAddress(state) || assignedAddress(state)),
    )
    if (concerned) queue.add('services')
  })
}
