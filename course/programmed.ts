import type { Cluster } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { evaluate } from '../grading/evaluate.ts'
import { Failure, Trouble } from '../grading/failure.ts'
import { type NodeView, Snapshot } from '../grading/snapshot.ts'
import { DeadlineError, waitFor } from '../host/wait.ts'

/** The time limit if the nodes are read: a genuine kube-proxy needs one second, and more on a busy machine. */
const READ_MS = 10_000

/**
 * Resolves when every kube-proxy has programmed the current API objects, or after the deadline: rules that are read
 * immediately after a change may be incomplete. If the cluster does not report it (`synced`), the nodes are compared with
 * the prediction.
 */
export async function programmed(cluster: Cluster, client: KubeClient, syncMs = READ_MS): Promise<void> {
  if (cluster.synced) return cluster.synced(syncMs)
  try {
    await waitFor('every node to have the rules that kube-proxy programs', READ_MS, async () =>
      isProgrammed(new Snapshot(await takeCapture(cluster, client))),
    )
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
  }
}

/** True if the state of every node equals the prediction for its kube-proxy. A node that can't be judged is ignored. */
export const isProgrammed = ({ nodes }: Snapshot): boolean => nodes.every(holdsPrediction)

function holdsPrediction(node: NodeView): boolean {
  try {
    const { mode } = node
    if (mode !== 'iptables' && mode !== 'ipvs' && mode !== 'nftables') return true
    return evaluate(node, mode).differences.length === 0
  } catch (error) {
    if (error instanceof Failure || error instanceof Trouble) return true
    throw error
  }
}
