import { readCaptureFolder } from '../cluster/capture-folder.ts'
import { type Cluster, requireUp } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { Trouble } from './failure.ts'
import type { Source as JudgedSource } from './judge.ts'
import { LiveCluster } from './live-cluster.ts'
import type { Source } from './report-schema.ts'
import { Snapshot } from './snapshot.ts'

/** The input of a grading run; plain data, because it is passed to vitest's worker. */
export interface GradingRequest {
  lab: number
  /** Only this step. */
  step?: string
  source: Source
}

/** Facts about the cluster, for the report. */
export interface RoundFacts {
  kubeProxy?: string
  mode?: string
}

/**
 * Opens the source of snapshots: a capture folder, or the cluster that CLUSTER and NAME select.
 * @throws CaptureError or UserError with a sentence for people
 */
export async function openSource(source: Source): Promise<JudgedSource> {
  if (source.kind === 'cluster') {
    // Offline grading needs none of the drivers.
    const { selectCluster } = await import('../cluster/select.ts')
    return openCluster(await selectCluster())
  }
  if (source.kind === 'submission')
    throw new Error('A submission holds several captures: it is judged by gradeSubmission.')
  const snapshot = new Snapshot(readCaptureFolder(source.folder))
  return { snapshot: async () => snapshot }
}

/**
 * The maximum time to wait, before nodes are read, until kube-proxies have programmed the current objects, if
 * the driver can detect it.
 */
const SYNC_MS = 3000

/** A running cluster as a source of snapshots. Throws UserError when it is not up. */
export async function openCluster(
  cluster: Cluster,
  options: { keepMoments?: boolean } = {},
): Promise<JudgedSource & { live: LiveCluster }> {
  await requireUp(cluster)
  const client = await kubeClient(cluster)
  const live = new LiveCluster(cluster, client, options)
  const snapshot = async () => {
    await cluster.synced?.(SYNC_MS)
    return new Snapshot(await takeCapture(cluster, client))
  }
  return { live, snapshot }
}

/** kube-proxy's version and mode, if all readable nodes agree. */
export function roundFacts({ nodes }: Snapshot): RoundFacts {
  const kubeProxy = agreed(nodes.map((node) => node.kubeProxyVersion))
  const mode = agreed(nodes.map((node) => node.mode))
  return { ...(kubeProxy === undefined ? {} : { kubeProxy }), ...(mode === undefined ? {} : { mode }) }
}

/** Notes in addition to the verdicts: the omitted objects, and the reasons. */
export const roundNotes = ({ leftOut }: Snapshot): readonly string[] => leftOut

function agreed(values: (string | Trouble | undefined)[]): string | undefined {
  const read = new Set(values.map((value) => (value instanceof Trouble ? undefined : value)))
  return read.size === 1 ? [...read][0] : undefined
}
