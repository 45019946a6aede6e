import { isIPv4 } from 'node:net'
import { type ControllerContext, keyOf, splitKey } from './context.ts'
import type { Service } from './resources.ts'
import { writeStatus } from './status.ts'

/** The first and last IPv4 address, both included, of what Services of type LoadBalancer are given. */
export interface AddressPool {
  first: string
  last: string
}

export const defaultLoadBalancerPool: AddressPool = { first: '172.18.255.200', last: '172.18.255.250' }

/** As the service controller of a cloud: the Service stays until its address is given back. */
const cleanupFinalizer = 'service.kubernetes.io/load-balancer-cleanup'

/** Gives Services of type LoadBalancer an address of the pool, and takes it back. Other load balancer classes are not its own. */
export function startLoadBalancerController(context: ControllerContext, pool: AddressPool): void {
  const { api } = context
  const recorder = context.recorder('service-controller')

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const service = api.get<Service>('services', namespace, name)
    if (!service) return
    const wanted = wantsAddress(service)
    if (!wanted && hasFinalizer(service)) release(service)
    if (wanted) ensure(service)
  })

  function ensure(service: Service) {
    const held = service.status?.loadBalancer?.ingress?.[0]?.ip
    const asked = service.spec.loadBalancerIP
    const taken = takenByOthers(service)
    const address = choose(pool, asked, held, taken)
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
    if (type !== 'DELETED') queue.add(keyOf(object))
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

type Choice = { ip: string } | { ip: undefined; fault: string }

/** The address asked for, else the one held, else the first free one; or what is wrong. */
function choose(
  { first, last }: AddressPool,
  asked: string | undefined,
  held: string | undefined,
  taken: ReadonlySet<string>,
): Choice {
  const range = `${first}-${last}`
  const [low, high] = [toNumber(first), toNumber(last)]
  const inPool = (ip: string) => isIPv4(ip) && toNumber(ip) >= low && toNumber(ip) <= high
  if (asked) {
    if (!inPool(asked)) return { ip: undefined, fault: `requested address "${asked}" is not in the pool ${range}` }
    if (taken.has(asked)) return { ip: undefined, fault: `requested address "${asked}" belongs to another Service` }
    return { ip: asked }
  }
  if (held && inPool(held) && !taken.has(held)) return { ip: held }
  for (let number = low; number <= high; number++) {
    const ip = toAddress(number)
    if (!taken.has(ip)) return { ip }
  }
  return { ip: undefined, fault: `no address of the pool ${range} is free` }
}

function toNumber(address: string): number {
  return address.split('.').reduce((number, part) => number * 256 + Number(part), 0)
}

function toAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')
}
