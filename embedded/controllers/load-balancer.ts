import { type AddressPool, chooseAddress } from '../../host/address-pool.ts'
import { type ControllerContext, keyOf, writeStatus } from './context.ts'
import type { Service } from './resources.ts'

export const defaultLoadBalancerPool: AddressPool = { first: '172.18.255.200', last: '172.18.255.250' }

/** As in the service controller of a cloud: the Service is kept until its address is released. */
const cleanupFinalizer = 'service.kubernetes.io/load-balancer-cleanup'

/**
 * Assigns addresses of the pool to Services of type LoadBalancer, and releases them. Services with a load
 * balancer class are ignored.
 */
export function startLoadBalancerController(context: ControllerContext, pool: AddressPool): void {
  const { api } = context
  const recorder = context.recorder('service-controller')

  const queue = context.reconcile<Service>('services', (service) => {
    const wanted = wantsAddress(service)
    if (!wanted && hasFinalizer(service)) release(service)
    if (wanted) ensure(service)
  })

  function ensure(service: Service) {
    const held = service.status?.loadBalancer?.ingress?.[0]?.ip
    const asked = service.spec.loadBalancerIP
    const taken = takenByOthers(service)
    const address = chooseAddress(pool, asked, held, taken)
    if (address.ip !== undefined && address.ip === held && hasFinalizer(service)) return
    recorder.event(service, 'Normal', 'EnsuringLoadBalancer', 'Ensuring load balancer')
    if (address.ip === undefined) {
      const message = `Error syncing load balancer: failed to ensure load balancer: ${address.fault}`
      recorder.event(service, 'Warning', 'SyncLoadBalancerFailed', message)
      if (held) writeStatus(api, 'services', service, { ...service.status, loadBalancer: {} })
      return
    }
    const finalizers = [...new Set([...(service.metadata.finalizers ?? []), cleanupFinalizer])]
    const stored = patchFinalizers(service, finalizers)
    const ingress = [{ ip: address.ip, ipMode: 'VIP' }]
    writeStatus(api, 'services', stored, { ...stored.status, loadBalancer: { ingress } })
    recorder.event(service, 'Normal', 'EnsuredLoadBalancer', 'Ensured load balancer')
  }

  function release(service: Service) {
    recorder.event(service, 'Normal', 'DeletingLoadBalancer', 'Deleting load balancer')
    writeStatus(api, 'services', service, { ...service.status, loadBalancer: {} })
    const finalizers = (service.metadata.finalizers ?? []).filter((finalizer) => finalizer !== cleanupFinalizer)
    patchFinalizers(service, finalizers)
    recorder.event(service, 'Normal', 'DeletedLoadBalancer', 'Deleted load balancer')
  }

  function patchFinalizers({ metadata: { namespace, name, uid } }: Service, finalizers: string[]): Service {
    const metadata = { uid, finalizers: finalizers.length > 0 ? finalizers : null }
    return api.patch<Service>('services', namespace, name, { metadata })
  }

  function takenByOthers(service: Service): Set<string> {
    const others = api.list<Service>('services').filter(({ metadata }) => metadata.uid !== service.metadata.uid)
    return new Set(others.flatMap(({ status }) => (status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? [])))
  }

  context.watch<Service>('services', ({ type, object, previous }) => {
    const before = previous?.status?.loadBalancer?.ingress?.[0]?.ip
    const freed = before && (type === 'DELETED' || object.status?.loadBalancer?.ingress?.[0]?.ip !== before)
    if (!freed) return
    for (const service of api.list<Service>('services')) {
      if (wantsAddress(service) && !service.status?.loadBalancer?.ingress?.length) queue.add(keyOf(service))
    }
  })
}

function wantsAddress({ spec, metadata }: Service): boolean {
  return spec.type === 'LoadBalancer' && !spec.loadBalancerClass && !metadata.deletionTimestamp
}

function hasFinalizer({ metadata }: Service): boolean {
  return metadata.finalizers?.includes(cleanupFinalizer) ?? false
}
