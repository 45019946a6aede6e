import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { kindFolder, projectRoot, START } from '../../../host/layout.ts'
import { forgetProcess, notedProcess, noteProcess } from '../../../host/live-process.ts'
import type { Progress } from '../../../host/progress.ts'
import { waitFor } from '../../../host/wait.ts'
import type { EngineName } from '../engine.ts'
import { ensureAppliance, removeAppliance } from './appliance.ts'

const noteFile = (cluster: string) => join(kindFolder(cluster), 'load-balancer.json')

/** The controller's log file. */
const balancerLog = (cluster: string) => join(kindFolder(cluster), 'load-balancer.log')

/** True while the controller of this cluster runs. */
export const balancerRuns = (cluster: string) => notedProcess(noteFile(cluster)) !== undefined

/** A kind cluster with support for Services of type LoadBalancer. */
interface BalancedCluster {
  engine: EngineName
  name: string
  /** An image that the engine has: the node image. */
  image: string
}

/**
 * Starts the load balancer if it does not run. It gives Services of type LoadBalancer their addresses: a container in front of
 * the nodes, from an image that the engine has, and a controller process. A cluster works without it, so errors are only
 * reported.
 */
export async function startBalancer({ engine, name, image }: BalancedCluster, progress: Progress): Promise<void> {
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

/** Ends both. Does nothing if they do not run. */
export async function stopBalancer(engine: EngineName, cluster: string): Promise<void> {
  const pid = notedProcess(noteFile(cluster))
  if (pid !== undefined) {
    process.kill(pid, 'SIGTERM')
    await waitFor('the load balancer to end', 10_000, async () => !balancerRuns(cluster))
  }
  forgetProcess(noteFile(cluster))
  await removeAppliance(engine, cluster)
}
