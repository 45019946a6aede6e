// The load balancer's controller for one kind cluster: daemon.ts NAME ENGINE. It ends when the
// cluster is deleted.
import { setTimeout as pause } from 'node:timers/promises'
import type { V1Service } from '@kubernetes/client-node'
import {
  assignments,
  balancedAddresses,
  type NodeObject,
  requiredHealthChecks,
  type ServiceObject,
} from '../../../embedded/index.ts'
import { reasonOf } from '../../../host/main.ts'
import { KindCluster } from '../../kind.ts'
import { kubeClient, listObjects } from '../../kube-client.ts'
import type { EngineName } from '../engine.ts'
import { nodeContainers } from '../node-containers.ts'
import { inAppliance, presentRoutes, readPool, routeScript } from './appliance.ts'

/** Interval of the rounds; cloud load balancers query health checks every few seconds. */
const roundMs = 1000
/** The cluster counts as deleted after this many consecutive rounds without a node container. */
const missedRoundsLimit = 30

const [, , cluster = '', engineName] = process.argv
const engine: EngineName = engineName === 'podman' ? 'podman' : 'docker'
const log = (line: string) => console.log(`${new Date().toISOString()} ${line}`)

process.on('SIGTERM', () => process.exit(0))

const client = await kubeClient(new KindCluster(cluster, engine))
const pool = await readPool(engine)
log(`gives addresses from ${pool.first} to ${pool.last}`)
let missed = 0
let lastFault = ''
while (missed < missedRoundsLimit) {
  try {
    await balance()
    missed = 0
    lastFault = ''
  } catch (error) {
    const fault = reasonOf(error)
    if (fault !== lastFault) log(fault)
    lastFault = fault
    const containers = await nodeContainers(engine, cluster).catch(() => undefined)
    missed = containers?.length === 0 ? missed + 1 : 0
  }
  await pause(roundMs)
}
log('the cluster was deleted')

/**
 * Assigns addresses to Services, queries the health checks of those with externalTrafficPolicy
 * Local, and updates the routes of the container.
 * @throws errors of the API server or the engine; the next round tries again
 */
async function balance(): Promise<void> {
  const listServices = () => listObjects<ServiceObject>(client, '/api/v1/services')
  const [before, nodes] = await Promise.all([
    listServices(),
    listObjects<NodeObject>(client, '/api/v1/nodes'),
  ])
  const changes = assignments(before, pool)
  for (const { service, ip, fault } of changes) {
    const { namespace = 'default', name } = service.metadata
    log(`${namespace}/${name}: ${ip ?? fault ?? 'its address was released'}`)
    const body: Pick<V1Service, 'status'> = {
      status: { loadBalancer: { ingress: ip === undefined ? [] : [{ ip }] } },
    }
    await client.core.patchNamespacedServiceStatus({ namespace, name, body }, client.mergePatch)
  }
  const services = changes.length > 0 ? await listServices() : before
  const wanted = balancedAddresses(services, nodes, await healthy(services, nodes))
  const script = routeScript(await presentRoutes(engine, cluster), wanted)
  if (script.length === 0) return
  const { exitCode, stderr } = await inAppliance(engine, cluster, `${script.join('\n')}\n`)
  if (exitCode !== 0 && stderr.trim())
    throw new Error(`routes could not be set: ${stderr.trim().split('\n')[0]}`)
  for (const { address, nodes: takers } of wanted)
    log(`${address} leads to ${takers.join(', ') || 'no node'}`)
}

/** Queries every health check in parallel, from the container that the traffic comes from. */
async function healthy(services: ServiceObject[], nodes: NodeObject[]): Promise<Set<string>> {
  const checks = requiredHealthChecks(services, nodes)
  if (checks.length === 0) return new Set()
  const ask = (key: string) =>
    `{ [ "$(curl -s -o /dev/null -m 2 -w '%{http_code}' http://${key}/healthz)" = 200 ] && echo ${key}; } &`
  const { stdout } = await inAppliance(engine, cluster, `${checks.map(ask).join('\n')}\nwait\n`)
  return new Set(stdout.split('\n').filter(Boolean))
}
