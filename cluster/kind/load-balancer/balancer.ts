import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import type { AddressPool } from '../../../host/address-pool.ts'
import { $ } from '../../../host/command.ts'
import { kindFolder, projectRoot, START } from '../../../host/layout.ts'
import { forgetProcess, notedProcess, noteProcess } from '../../../host/live-process.ts'
import type { Progress } from '../../../host/progress.ts'
import { waitFor } from '../../../host/wait.ts'
import { kubectlPath } from '../../kubectl.ts'
import type { EngineName } from '../engine.ts'
import { ensureAppliance, readPool, removeAppliance } from './appliance.ts'

/** The release whose manifest is applied; `METALLB_MANIFEST` names another address, or a file. */
const release = 'v0.15.3'
const manifest = () =>
  process.env.METALLB_MANIFEST ||
  `https://raw.githubusercontent.com/metallb/metallb/${release}/config/manifests/metallb-native.yaml`

/** The configuration for MetalLB: this pool, announced on the nodes' own network. */
export function metalLbConfiguration({ first, last }: AddressPool): object[] {
  const metadata = { name: 'kind', namespace: 'metallb-system' }
  const apiVersion = 'metallb.io/v1beta1'
  return [
    { apiVersion, kind: 'IPAddressPool', metadata, spec: { addresses: [`${first}-${last}`] } },
    { apiVersion, kind: 'L2Advertisement', metadata, spec: { ipAddressPools: ['kind'] } },
  ]
}

/**
 * Installs MetalLB with a pool of addresses. In IPVS mode it needs strictARP, because every node then owns every address.
 * @throws Error in one sentence when its manifest or its images can't be fetched
 */
async function installMetalLb(kubeconfig: string, pool: AddressPool, progress: Progress): Promise<void> {
  const { path } = await kubectlPath(progress)
  const kubectl = (words: string[], input = '') =>
    $({ quiet: true, nothrow: true, input })`${path} --kubeconfig ${kubeconfig} ${words}`
  const step = async (what: string, words: string[], input?: string) => {
    progress.start(what)
    const { exitCode, stderr } = await kubectl(words, input)
    progress.end(exitCode === 0)
    if (exitCode === 0) return
    const reason = stderr.trim().split('\n').at(-1)
    throw new Error(
      `MetalLB could not be installed (${reason}). METALLB_MANIFEST= names another manifest; without LB=metallb the load balancer needs no download.`,
    )
  }
  await step(`Applying MetalLB ${release}`, ['apply', '-f', manifest()])
  const rollout = (name: string) => ['-n', 'metallb-system', 'rollout', 'status', name, '--timeout=180s']
  await step('Waiting for its controller', rollout('deployment/controller'))
  await step('Waiting for its speakers', rollout('daemonset/speaker'))
  const objects = { apiVersion: 'v1', kind: 'List', items: metalLbConfiguration(pool) }
  await step(`Giving it ${pool.first}-${pool.last}`, ['apply', '-f', '-'], JSON.stringify(objects))
}

const noteFile = (cluster: string) => join(kindFolder(cluster), 'load-balancer.json')

/** The controller's log file. */
const balancerLog = (cluster: string) => join(kindFolder(cluster), 'load-balancer.log')

/** True while the controller of this cluster runs. */
export const balancerRuns = (cluster: string) => notedProcess(noteFile(cluster)) !== undefined

/** A kind cluster with support for Services of type LoadBalancer. */
interface BalancedCluster {
  engine: EngineName
  name: string
  kubeconfig: string
  /** An image that the engine has: the node image. */
  image: string
}

/**
 * Provides addresses for Services of type LoadBalancer: from our own load balancer, which needs no download, or from
 * MetalLB with `LB=metallb`; with `LB=none` there are none.
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
 * Starts our load balancer if it does not run: a container in front of the nodes, from an image that the engine has, and
 * a controller process. A cluster works without it, so errors are only reported.
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
