import { type AddressPool, chooseAddress } from '../../host/address-pool.ts'
import { type ControllerContext, keyOf, writeStatus } from './context.ts'
import type { Service } from './resources.ts'

export const defaultLoadBalancerPool: AddressPool = { first: '172.18.255.200', last: '172.18.255.250' }

const addressOf = ({ status }: Service): string | undefined => status?.loadBalancer?.ingress?.[0]?.ip

/**
 * Assigns addresses of the pool to Services of type LoadBalancer, and takes them back when the type changes. Services with a load
 * balancer class are ignored.
 */
export function startLoadBalancerController(context: ControllerContext, pool: AddressPool): void {
  const { api } = context
  const recorder = context.recorder('service-controller')

  const queue = context.reconcile<Service>('services', (service) => {
    const held = addressOf(service)
    const write = (loadBalancer: object) => writeStatus(api, 'services', service, { ...service.status, loadBalancer })
    if (service.spec.type !== 'LoadBalancer' && held) write({})
    if (!wantsAddress(service)) return
    const others = api.list<Service>('services').filter(({ metadata }) => metadata.uid !== service.metadata.uid)
    const taken = new Set(others.flatMap((other) => addressOf(other) ?? []))
    const address = chooseAddress(pool, service.spec.loadBalancerIP, held, taken)
    if (address.ip === undefined) {
      const message = `Error syncing load balancer: failed to ensure load balancer: ${address.fault}`
      recorder.event(service, 'Warning', 'SyncLoadBalancerFailed', message)
      if (held) write({})
    } else if (address.ip !== held) {
      write({ ingress: [{ ip: address.ip, ipMode: 'VIP' }] })
      recorder.event(service, 'Normal', 'EnsuredLoadBalancer', 'Ensured load balancer')
    }
  })

  context.watch<Service>('services', ({ type, object, previous }) => {
    const before = previous && addressOf(previous)
    if (!before || (type !== 'DELETED' && addressOf(object) === before)) return
    for (const service of api.list<Service>('services'))
      if (wantsAddress(service) && !addressOf(service)) queue.add(keyOf(service))
  })
}

function wantsAddress({ spec, metadata }: Service): boolean {
  return spec.type === 'LoadBalancer' && !spec.loadBalancerClass && !metadata.deletionTimestamp
}
