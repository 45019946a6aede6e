import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { kindFolder, projectRoot, START } from '../../../host/layout.ts'
import { forgetProcess, notedProcess, noteProcess } from '../../../host/live-process.ts'
import type { Progress } from '../../../host/progress.ts'
import { waitFor } from '../../../host/wait.ts'
import type { EngineName } from '../engine.ts'
import { ensureAppliance, readPool, removeAppliance } from './appliance.ts'
import { installMetalLb } from './metallb.ts'

const noteFile = (cluster: string) => join(kindFolder(cluster), 'load-balancer.json')

/** Where the controller writes what it does. */
const balancerLog = (cluster: string) => join(kindFolder(cluster), 'load-balancer.log')

/** True while the controller of this cluster runs. */
export const balancerRuns = (cluster: string) => notedProcess(noteFile(cluster)) !== undefined

/** A kind cluster that Services of type LoadBalancer are to work in. */
export interface BalancedCluster {
  engine: EngineName
  name: string
  kubeconfig: string
  /** An image that the engine has: the nodes' own. */
  image: string
}

/**
 * Provides Services of type LoadBalancer with addresses: by our own load balancer, that needs no download, by MetalLB
 * with `LB=metallb`, or not at all with `LB=none`.
 * @throws Error for any other `LB`, or when MetalLB can't be installed
 */
export async function provideBalancer(cluster: BalancedCluster, progress: Progress): Promise<void> {
  const wish = process.env.LB || 'own'
  if (!['own', 'metallb', 'none'].includes(wish))
    throw new Error(`LB="${wish}" is not known: use "own", "metallb" or "none".`)
  if (wish === 'own') return startBalancer(cluster, progress)
  await stopBalancer(cluster.engine, cluster.name)
  if (wish === 'metallb') await installMetalLb(cluster.kubeconfig, await readPool(cluster.engine), progress)
}

/**
 * Starts what gives Services of type LoadBalancer their addresses, where it does not run: a container in front of the nodes,
 * made of an image that is here, and a process beside it. A cluster without it is whole all the same, so trouble is only told.
 */
async function startBalancer({ engine, name, image }: BalancedCluster, progress: Progress): Promise<void> {
  try {
    await ensureAppliance(engine, name, image)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return progress.note(`Services of type LoadBalancer stay pending: ${reason}.`)
  }
  if (balancerRuns(name)) return
  const log = openSync(balancerLog(name), 'a', 0o600)
  const child = spawn(process.execPath, [START, 'cluster/kind/load-balancer/daemon.ts', name, engine], {
    cwd: projectRoot,
    detached: true,
    stdio: ['ignore', log, log],
  })
  if (child.pid !== undefined) noteProcess(noteFile(name), child.pid)
  child.unref()
}

/** Ends both. Harmless where there is nothing. */
export async function stopBalancer(engine: EngineName, cluster: string): Promise<void> {
  const pid = notedProcess(noteFile(cluster))
  if (pid !== undefined) {
    process.kill(pid, 'SIGTERM')
    await waitFor('the load balancer to end', 10_000, async () => !balancerRuns(cluster))
  }
  forgetProcess(noteFile(cluster))
  await removeAppliance(engine, cluster)
}
