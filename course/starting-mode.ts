import type { Cluster } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { isForeignImage, OWN } from '../cluster/kube-proxy/image-choice.ts'
import { readConfigConf, readDaemonSet } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { readMode } from '../dataplane/kube-proxy/config-conf.ts'
import { isEmptyFlush, planFlush } from '../dataplane/kube-proxy/flush.ts'
import type { SwitchedMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { evaluate } from '../grading/evaluate.ts'
import { modeOf, Snapshot, stateOf } from '../grading/snapshot.ts'
import type { Progress } from '../host/progress.ts'
import { DeadlineError, waitFor } from '../host/wait.ts'

/** The time limit for a running kube-proxy to sync after a reset, or to finish its first sync. */
const settleMs = 8000

/** A cluster, and the learner's commands on it (LabBench). */
interface ModeCommands {
  readonly cluster: Cluster
  readonly client: KubeClient
  readonly progress: Progress
  defaultScheduler(): Promise<{ scheduler?: string }>
  mode(mode: SwitchedMode, options: { version?: string; force?: boolean }): Promise<void>
  flush(): Promise<void>
}

/**
 * Brings kube-proxy into a mode with its default scheduler, in the cluster's own version, without leftovers or damage; fast
 * if this is already the state.
 */
export async function startIn(mode: SwitchedMode, bench: ModeCommands): Promise<void> {
  const scheduler = await bench.defaultScheduler()
  const configured = readMode((await readConfigConf(bench.client)).text).mode || 'iptables'
  const foreign = isForeignImage(await readDaemonSet(bench.client))
  const isConfigured = configured === mode && scheduler.scheduler === undefined && !foreign
  if (isConfigured && (await settles(mode, bench))) return
  await bench.mode(mode, { ...scheduler, version: OWN })
  await bench.flush()
  // Manually altered rules survive many syncs of iptables mode; a restarted kube-proxy writes all rules.
  if (!(await settles(mode, bench))) await bench.mode(mode, { force: true })
}

/** True if every node is in that mode, has exactly its predicted state, and no leftovers of another mode. */
function holds(mode: SwitchedMode, { nodes }: Snapshot): boolean {
  return nodes.every(
    (node) =>
      modeOf(node) === mode &&
      isEmptyFlush(planFlush(mode, stateOf(node), new Map())) &&
      evaluate(node, mode).differences.every(({ interferes }) => interferes),
  )
}

async function settles(mode: SwitchedMode, bench: ModeCommands): Promise<boolean> {
  const { cluster, client, progress } = bench
  progress.start(`Checking that every node runs mode "${mode}" and nothing else`)
  try {
    await waitFor(`every node to be in mode "${mode}"`, settleMs, async () => {
      await cluster.synced?.(settleMs)
      const snapshot = new Snapshot(await takeCapture(cluster, client))
      // Waiting does not help if another mode runs.
      if (snapshot.nodes.map(modeOf).some((runs) => runs !== undefined && runs !== mode)) throw new DeadlineError(mode)
      return holds(mode, snapshot)
    })
    progress.end(true)
    return true
  } catch (error) {
    progress.end(true, 'not yet')
    if (error instanceof DeadlineError) return false
    throw error
  }
}
