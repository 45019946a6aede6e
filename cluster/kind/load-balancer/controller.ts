import type { V1Service } from '@kubernetes/client-node'
import { balancedAddresses, healthChecks, healthKey, type Node, type Service } from '../../../embedded/index.ts'
import { type AddressPool, chooseAddress, isInPool } from '../../../host/address-pool.ts'
import type { KubeClient } from '../../kube-client.ts'
import type { EngineName } from '../engine.ts'
import { inAppliance, presentRoutes, routeScript } from './appliance.ts'

/** A Service whose status must change to another address, or to none. */
interface Assignment {
  namespace: string
  name: string
  ip: string | undefined
  /** Why there is no address, for a Service that needs one. */
  fault?: string
}

const wantsOurs = ({ spec, metadata }: Service) =>
  spec.type === 'LoadBalancer' && !spec.loadBalancerClass && !metadata.deletionTimestamp

/** The changes that give each Service of type LoadBalancer, and no other Service, its own address of the pool. */
export function assignments(services: readonly Service[], pool: AddressPool): Assignment[] {
  const heldBy = ({ status }: Service) => status?.loadBalancer?.ingress?.[0]?.ip
  const owners = new Map<string, Service>()
  for (const service of services.filter(wantsOurs)) {
    const held = heldBy(service)
    if (held && !owners.has(held)) owners.set(held, service)
  }
  const changes: Assignment[] = []
  for (const service of services) {
    const held = heldBy(service)
    const { namespace = 'default', name } = service.metadata
    if (wantsOurs(service)) {
      const taken = [...owners].filter(([, owner]) => owner !== service).map(([ip]) => ip)
      const choice = chooseAddress(pool, service.spec.loadBalancerIP, held, new Set(taken))
      if (choice.ip !== undefined) owners.set(choice.ip, service)
      if (choice.ip === undefined || choice.ip !== held) changes.push({ namespace, name, ...choice })
    } else if (held && isInPool(pool, held) && !service.spec.loadBalancerClass)
      changes.push({ namespace, name, ip: undefined })
  }
  return changes
}

/** The cluster and address pool that one controller manages. */
interface Balancing {
  engine: EngineName
  cluster: string
  client: KubeClient
  pool: AddressPool
  log(line: string): void
}

/** client-node's objects as plain JSON, which the balancing rules expect. */
const asStored = <T>(items: unknown[]): T[] => JSON.parse(JSON.stringify(items))

/**
 * Assigns addresses to Services, queries the health checks of those with externalTrafficPolicy Local, and updates the routes
 * of the container.
 * @throws errors of the API server or the engine; the next round tries again
 */
export async function balanceOnce(balancing: Balancing): Promise<void> {
  const { engine, cluster, client, pool, log } = balancing
  const [serviceList, nodeList] = await Promise.all([client.core.listServiceForAllNamespaces(), client.core.listNode()])
  const changes = assignments(asStored<Service>(serviceList.items), pool)
  for (const change of changes) await assign(client, change, log)
  const services = asStored<Service>(
    changes.length > 0 ? (await client.core.listServiceForAllNamespaces()).items : serviceList.items,
  )
  const nodes = asStored<Node>(nodeList.items)
  const wanted = balancedAddresses(services, nodes, await healthy(balancing, services, nodes))
  const script = routeScript(await presentRoutes(engine, cluster), wanted)
  if (script.length === 0) return
  const { exitCode, stderr } = await inAppliance(engine, cluster, `${script.join('\n')}\n`)
  if (exitCode !== 0 && stderr.trim()) throw new Error(`routes could not be set: ${stderr.trim().split('\n')[0]}`)
  for (const { address, nodes: takers } of wanted) log(`${address} leads to ${takers.join(', ') || 'no node'}`)
}

async function assign(client: KubeClient, { namespace, name, ip, fault }: Assignment, log: Balancing['log']) {
  log(`${namespace}/${name}: ${ip ?? fault ?? 'its address was released'}`)
  const body: Pick<V1Service, 'status'> = { status: { loadBalancer: { ingress: ip === undefined ? [] : [{ ip }] } } }
  await client.core.patchNamespacedServiceStatus({ namespace, name, body }, client.mergePatch)
}

/** Queries every health check in parallel, from the container that the traffic comes from. */
async function healthy({ engine, cluster }: Balancing, services: Service[], nodes: Node[]): Promise<Set<string>> {
  const checks = healthChecks(services, nodes).map(healthKey)
  if (checks.length === 0) return new Set()
  const ask = (key: string) =>
    `{ [ "$(curl -s -o /dev/null -m 2 -w '%{http_code}' http://${key}/healthz)" = 200 ] && echo ${key}; } &`
  const { stdout } = await inAppliance(engine, cluster, `${checks.map(ask).join('\n')}\nwait\n`)
  return new Set(stdout.split('\n').filter(Boolean))
}
