import type { Service } from '../../../embedded/index.ts'
import { type AddressPool, chooseAddress, isInPool } from '../../../host/address-pool.ts'

/** A Service whose status is to name another address, or none. */
export interface Assignment {
  namespace: string
  name: string
  ip: string | undefined
  /** Why there is none, for a Service that wants one. */
  fault?: string
}

const wantsOurs = ({ spec, metadata }: Service) =>
  spec.type === 'LoadBalancer' && !spec.loadBalancerClass && !metadata.deletionTimestamp

/** The changes after which each Service of type LoadBalancer, and no other Service, has its own address of the pool. */
export function assignments(services: readonly Service[], pool: AddressPool): Assignment[] {
  const heldBy = (service: Service) => service.status?.loadBalancer?.ingress?.[0]?.ip
  const taken = new Map<string, string | undefined>()
  for (const service of services) {
    const held = heldBy(service)
    if (held && wantsOurs(service) && !taken.has(held)) taken.set(held, service.metadata.uid)
  }
  const changes: Assignment[] = []
  for (const service of services) {
    const held = heldBy(service)
    const { namespace = 'default', name } = service.metadata
    if (!wantsOurs(service)) {
      if (held && isInPool(pool, held) && !service.spec.loadBalancerClass)
        changes.push({ namespace, name, ip: undefined })
      continue
    }
    const others = new Set([...taken].filter(([, uid]) => uid !== service.metadata.uid).map(([ip]) => ip))
    const choice = chooseAddress(pool, service.spec.loadBalancerIP, held, others)
    if (choice.ip !== undefined) taken.set(choice.ip, service.metadata.uid)
    if (choice.ip !== held)
      changes.push({ namespace, name, ip: choice.ip, ...(choice.ip === undefined ? { fault: choice.fault } : {}) })
    else if (choice.ip === undefined) changes.push({ namespace, name, ip: undefined, fault: choice.fault })
  }
  return changes
}
