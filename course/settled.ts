// Waiting until the nodes have what kube-proxy programs: a node that is read earlier is incomplete.
// After a deadline the checks report the problem.

import type { Cluster } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { takeCapture, takeObjects } from '../cluster/snapshot.ts'
import { isEmptyFlush, planFlush } from '../dataplane/kube-proxy/flush.ts'
import type { SwitchedMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { evaluate } from '../grading/evaluate.ts'
import { Failure, Trouble } from '../grading/failure.ts'
import { pendingChanges } from '../grading/pending-changes.ts'
import { modeOf, type NodeView, Snapshot, stateOf } from '../grading/snapshot.ts'
import type { Progress } from '../host/progress.ts'
import { isMetWithin } from '../host/wait.ts'

/**
 * The time limit if the nodes are read: a genuine kube-proxy needs one second, and more on a busy
 * machine.
 */
const READ_MS = 10_000
/**
 * The age below which an object is not yet programmed, if the driver does not report when
 * kube-proxy has synced.
 */
const FRESH_MS = 1000
/** The time limit for a running kube-proxy to sync after a change, and after a reset or a start. */
const SYNC_MS = 3000
const START_MS = 8000

/** What has a running cluster: a LabBench. */
interface WithCluster {
  readonly cluster: Cluster
  readonly client: KubeClient
}

/**
 * Resolves when every kube-proxy has programmed the current API objects, or after the deadline. If
 * the cluster does not report it (`synced`), the nodes are compared with the prediction.
 */
export async function programmed(
  { cluster, client }: WithCluster,
  syncMs = SYNC_MS,
): Promise<void> {
  if (cluster.capabilities.reportsSync) await cluster.synced(syncMs)
  else
    await isMetWithin(READ_MS, async () =>
      isProgrammed(new Snapshot(await takeCapture(cluster, client))),
    )
}

/**
 * Resolves when the API shows no pending change and every kube-proxy has synced, or after the
 * deadline.
 */
export async function settled({ cluster, client }: WithCluster): Promise<void> {
  const fresh = cluster.capabilities.reportsSync ? 0 : FRESH_MS
  await isMetWithin(10_000, async () => {
    return (
      pendingChanges(new Snapshot(await takeObjects(cluster, client)), fresh, fresh).length === 0
    )
  })
  await programmed({ cluster, client })
}

/**
 * True if the state of every node equals the prediction for its kube-proxy. A node whose mode could
 * not be read has not been seen with its rules: it is read again. One that can't be judged, for
 * example because of its version, is ignored.
 */
export const isProgrammed = ({ nodes }: Snapshot): boolean => nodes.every(holdsPrediction)

function holdsPrediction(node: NodeView): boolean {
  try {
    const { mode } = node
    if (mode === undefined || mode instanceof Trouble) return false
    if (mode !== 'iptables' && mode !== 'ipvs' && mode !== 'nftables') return true
    return evaluate(node, mode).differences.length === 0
  } catch (error) {
    if (error instanceof Failure || error instanceof Trouble) return true
    throw error
  }
}

/**
 * True as soon as every node is in that mode, has exactly its predicted state, and no leftovers of
 * another mode; false after the deadline, or at once if another mode runs.
 */
export async function holdsOnly(
  mode: SwitchedMode,
  { cluster, client }: WithCluster,
  progress: Progress,
): Promise<boolean> {
  progress.start(`Checking that every node runs mode "${mode}" and nothing else`)
  let holds = false
  try {
    await isMetWithin(START_MS, async () => {
      await cluster.synced(START_MS)
      const { nodes } = new Snapshot(await takeCapture(cluster, client))
      holds = nodes.every(
        (node) =>
          modeOf(node) === mode &&
          isEmptyFlush(planFlush(mode, stateOf(node), new Map())) &&
          evaluate(node, mode).differences.every(({ interferes }) => interferes),
      )
      return holds || nodes.map(modeOf).some((runs) => runs !== undefined && runs !== mode)
    })
    return holds
  } finally {
    progress.end(true, holds ? undefined : 'not yet')
  }
}
