import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { readMode, writeMode } from '../../dataplane/kube-proxy/config-conf.ts'
import type { KernelMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { featuresOf, newestBefore } from '../../dataplane/kube-proxy/versions.ts'
import { Refusal } from '../../dataplane/refusal.ts'
import { type Progress, withProgress } from '../../host/progress.ts'
import { changeCluster } from '../cluster-lock.ts'
import { consent } from '../consent.ts'
import type { Cluster } from '../driver.ts'
import { type KubeClient, kubeClient } from '../kube-client.ts'
import {
  KubeProxyError,
  listKubeProxyPods,
  readConfigConf,
  readDaemonSet,
  writeConfigConf,
} from './kube-proxy-pods.ts'
import { modeLacks } from './module-check.ts'
import { awaitProofs, type ModeProof, type WantedMode } from './proof.ts'
import { awaitRollout, chooseImage, imageIn, restartKubeProxyPods } from './rollout.ts'

export interface SwitchOptions {
  /** IPVS scheduler to set; default: the one in the ConfigMap. */
  scheduler?: string
  /** Version of kube-proxy to run, or `own` for the cluster's own; default: the one that runs. */
  version?: string
  /** Restart even if the mode is already in force, and try IPVS even on a kernel that lacks it. */
  force?: boolean
  progress: Progress
}

export interface SwitchResult {
  /** False when mode and scheduler were already in force and nothing was done. */
  changed: boolean
  /** The previous mode in the ConfigMap; empty if kube-proxy chose it. */
  before: string
  proofs: ModeProof[]
}

/** A mode can't run on a node's kernel or in this version of kube-proxy; nothing was changed. */
export class ModeUnsupported extends Refusal {
  constructor(mode: KernelMode, lacks: string, advice = '') {
    super(
      `Mode "${mode}" can't run here, and nothing was changed: ${lacks}.${advice && ` ${advice}`}`,
    )
  }
}

/**
 * Puts every kube-proxy of a cluster into a mode: checks the kernel modules on every node first,
 * changes only `mode` (and `ipvs.scheduler`) in the ConfigMap (and the DaemonSet's image for
 * another version), restarts the DaemonSet, waits, and proves per node which proxier runs. The old
 * mode's rules remain until flushNat removes them.
 * @throws ModeUnsupported before anything is changed; KubeProxyError when a kube-proxy crashes or
 * the nodes disagree
 */
export function switchMode(
  cluster: Cluster,
  mode: KubeProxyMode,
  options: SwitchOptions,
): Promise<SwitchResult> {
  const doing = `switches the mode of kube-proxy to ${mode} on`
  return changeCluster(cluster, doing, options.progress, () => switchAlone(cluster, mode, options))
}

async function switchAlone(
  cluster: Cluster,
  mode: KubeProxyMode,
  options: SwitchOptions,
): Promise<SwitchResult> {
  const { progress, scheduler } = options
  if (scheduler !== undefined && !/^[a-z]{2,8}$/.test(scheduler))
    throw new KubeProxyError(
      `"${scheduler}" is not an IPVS scheduler: use for example rr, wrr, lc, wlc, sh or mh.`,
    )
  const client = await kubeClient(cluster)
  const daemonSet = await readDaemonSet(client)
  const image =
    options.version === undefined ? undefined : chooseImage(cluster, daemonSet, options.version)
  const config = await readConfigConf(client)
  const current = readMode(config.text)
  const nodes = (await listKubeProxyPods(client)).map(({ node }) => node)

  await consent(
    cluster,
    `put kube-proxy into mode "${mode}" (kernel modules, its ConfigMap and a restart of its DaemonSet)`,
  )
  await requireKernels(cluster, nodes, mode, {
    ...options,
    scheduler: scheduler ?? (current.scheduler || 'rr'),
  })
  if (mode === 'nftables') requireNftablesVersion(image?.image ?? imageIn(daemonSet))
  const isConfigured =
    current.mode === mode && (scheduler === undefined || scheduler === current.scheduler)
  if (isConfigured && image === undefined && !options.force) {
    const proofs = await inForce(cluster, client, { mode, scheduler })
    if (proofs) return { changed: false, before: current.mode, proofs }
  }
  if (!isConfigured)
    await withProgress(progress, `Setting mode "${mode}" in kube-proxy's ConfigMap`, () =>
      writeConfigConf(client, writeMode(config.text, { mode, scheduler }), config.resourceVersion),
    )
  const restarting = image
    ? `Restarting every kube-proxy as ${image.image}`
    : 'Restarting every kube-proxy'
  const stamp = await withProgress(progress, restarting, async () => {
    const since = await restartKubeProxyPods(client, image)
    await awaitRollout(client, progress, since)
    return since
  })
  const proofs = await withProgress(progress, 'Checking which proxier runs on every node', () =>
    awaitProofs(cluster, client, { mode, scheduler, stamp }),
  )
  return { changed: true, before: current.mode, proofs }
}

/**
 * Throws ModeUnsupported if the kernel of a node lacks what the mode needs; IPVS is tried anyway
 * with `force`.
 */
async function requireKernels(
  cluster: Cluster,
  nodes: readonly string[],
  mode: KubeProxyMode,
  { scheduler, force, progress }: SwitchOptions & { scheduler: string },
): Promise<void> {
  // Userspace mode needs nat, as iptables mode does.
  const needs = mode === 'userspace' ? 'iptables' : mode
  const checking = `Checking the kernel modules for mode "${mode}" on ${nodes.length} nodes`
  const lacks = await withProgress(progress, checking, async () => {
    const found = await modeLacks(cluster, nodes, needs, scheduler)
    if (found !== undefined && (mode !== 'ipvs' || !force))
      throw new ModeUnsupported(needs, found, advice(cluster, mode, found))
    return found
  })
  if (lacks !== undefined)
    progress.note(`Mode "${mode}" can't run here: ${lacks}. Continuing, because FORCE=1 is set.`)
}

/**
 * Before 1.31 the mode is behind a feature gate, or missing. Throws ModeUnsupported before anything
 * is changed.
 */
function requireNftablesVersion(image: string): void {
  const version = /:(v\d+\.\d+[^@:]*)/.exec(image)?.[1]
  if (version === undefined || newestBefore(version) !== undefined) return
  if (featuresOf(version).nftables === 'available') return
  throw new ModeUnsupported(
    'nftables',
    `kube-proxy ${version} does not have it, or only behind a feature gate; use 1.31 or newer`,
  )
}

function advice({ driver }: Cluster, mode: KubeProxyMode, lacks: string): string {
  if (mode === 'nftables')
    return 'CLUSTER=kind, or another embedded cluster with KERNEL=host, runs it on any Linux with nftables; `make doctor` shows whether this machine can.'
  if (mode !== 'ipvs') return ''
  const remedies = ['`make doctor` shows how to fix it.']
  if (driver !== 'embedded' && lacks.includes('(module ip_vs)'))
    remedies.push('CLUSTER=embedded has a kernel with it.')
  return [...remedies, 'FORCE=1 tries it anyway, to show how kube-proxy behaves then.'].join(' ')
}

/** A kube-proxy that has just started may not have switched to the configured mode yet. */
const recentStartMs = 30_000

async function inForce(
  cluster: Cluster,
  client: KubeClient,
  wanted: WantedMode,
): Promise<ModeProof[] | undefined> {
  const pods = await listKubeProxyPods(client)
  const young = pods.some(
    ({ startedAt = '' }) => Date.now() - Date.parse(startedAt) < recentStartMs,
  )
  try {
    return await awaitProofs(cluster, client, wanted, young ? recentStartMs / 2 : 0)
  } catch (error) {
    if (error instanceof KubeProxyError) return undefined
    throw error
  }
}
