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

/**
 * The changes that give each Service of type LoadBalancer, and no other, its own address of the
 * pool.
 */
export function assignments(services: readonly ServiceObject[], pool: AddressPool): Assignment[] {
  const owners = addressOwners(services)
  const changes: Assignment[] = []
  for (const service of services) {
    if (wantsAddress(service)) changes.push(...assignAddress(service, pool, owners))
    else if (mustReturnAddress(service, pool)) changes.push({ service, ip: undefined })
  }
  return changes
}

/** The Service that keeps each assigned address: the first, if several have the same one. */
function addressOwners(services: readonly ServiceObject[]): Map<string, ServiceObject> {
  const owners = new Map<string, ServiceObject>()
  for (const service of services.filter(wantsAddress)) {
    const current = assignedAddress(service)
    if (current && !owners.has(current)) owners.set(current, service)
  }
  return owners
}

/** The change of a Service that wants an address: none if it keeps its own. Updates `owners`. */
function assignAddress(
  service: ServiceObject,
  pool: AddressPool,
  owners: Map<string, ServiceObject>,
): Assignment[] {
  const existing = assignedAddress(service)
  const taken = [...owners].filter(([, owner]) => owner !== service).map(([ip]) => ip)
  const choice = chooseAddress(pool, service.spec.loadBalancerIP, existing, new Set(taken))
  if (choice.ip === undefined) return [{ service, ...choice }]
  owners.set(choice.ip, service)
  return choice.ip === existing ? [] : [{ service, ...choice }]
}

/** Whether a Service that wants no address still has one of the pool. */
function mustReturnAddress(service: ServiceObject, pool: AddressPool): boolean {
  const existing = assignedAddress(service)
  if (!existing || service.spec.loadBalancerClass) return false
  return isInPool(pool, existing)
}

/**
 * Assigns addresses of the pool to Services of type LoadBalancer, and takes them back when the type
 * changes.
 */
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
