import { readCaptureFolder } from '../cluster/capture-folder.ts'
import { type Cluster, requireUp } from '../cluster/driver.ts'
import { type KubeClient, kubeClient } from '../cluster/kube-client.ts'
import type { ReportDepth } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { reasonOf } from '../host/main.ts'
import type { ExecResult } from '../host/shell-word.ts'
import { scaledMs } from '../host/wait.ts'
import { CompleteChecks } from './complete-checks.ts'
import { Trouble } from './failure.ts'
import { Moments } from './moments.ts'
import type { Source } from './report-schema.ts'
import { Snapshot } from './snapshot.ts'

/** The name of a Pod, and of a container. */
export interface PodName {
  namespace: string
  name: string
  /** Required if the Pod has several. */
  container?: string
}

const EXEC_TIMEOUT_MS = 20_000
const SILENCE_MS = 30_000

/**
 * A check reached its requests in a round without packets. All earlier assertions of the check
 * passed.
 */
export class PacketsNotSent extends Error {}

/** The running cluster, for real requests: commands on nodes and in Pods, and Pods' logs. */
export class LiveCluster {
  readonly cluster: Cluster
  readonly client: KubeClient
  /** Stores captures of steps that passed; absent for another learner's cluster. */
  readonly moments: Moments | undefined
  /** Shares complete checks with other programs; absent where moments are. */
  readonly checks: CompleteChecks | undefined
  readonly #quiet: boolean
  /** Pods that did not respond in time. */
  readonly #silent = new Map<string, { until: number; reason: string }>()

  constructor(cluster: Cluster, client: KubeClient, { keepMoments = true, quiet = false } = {}) {
    this.cluster = cluster
    this.client = client
    this.#quiet = quiet
    this.moments = keepMoments ? new Moments(cluster.driver, cluster.name) : undefined
    this.checks = keepMoments ? new CompleteChecks(cluster.driver, cluster.name) : undefined
  }

  /**
   * The same cluster for rounds without packets, which leave the learner's counters, connections
   * and logs unchanged.
   */
  quietly(): LiveCluster {
    return new LiveCluster(this.cluster, this.client, {
      keepMoments: this.moments !== undefined,
      quiet: true,
    })
  }

  /**
   * Runs a script that sends packets on a node. Throws Trouble when the node can't be reached, and
   * PacketsNotSent in a quiet round.
   */
  onNode(node: string, script: string): Promise<ExecResult> {
    this.#mustMaySend()
    return this.readOnNode(node, script)
  }

  /**
   * Runs a read-only shell script on a node. Throws Trouble only when the node can't be reached.
   */
  async readOnNode(node: string, script: string): Promise<ExecResult> {
    try {
      return await runOnNode(this.cluster, node, script, {
        timeoutMs: EXEC_TIMEOUT_MS,
        readOnly: true,
      })
    } catch (error) {
      throw new Trouble(`node ${node} could not be reached (${reasonOf(error)})`)
    }
  }

  /**
   * Runs a shell script in a Pod's container, through the API. Throws Trouble when it can't be
   * started or does not end in time; the next steps of this command do not wait again for a Pod
   * that did not respond. Throws PacketsNotSent, at once, in a quiet round.
   */
  inPod(pod: PodName, script: string): Promise<ExecResult> {
    this.#mustMaySend()
    return this.#execInPod(pod, script)
  }

  #mustMaySend(): void {
    if (this.#quiet) throw new PacketsNotSent('no packets are sent in this round')
  }

  async #execInPod(pod: PodName, script: string): Promise<ExecResult> {
    const { execInPod, PodExecError } = await import('../cluster/context/pod-exec.ts')
    const silence = this.#silent.get(pod.name)
    if (silence !== undefined && Date.now() < silence.until)
      throw new Trouble(`a command could not be run in Pod ${pod.name} (${silence.reason})`)
    const began = Date.now()
    const timeoutMs = scaledMs(EXEC_TIMEOUT_MS)
    try {
      return await execInPod(this.client, pod, ['sh', '-c', script], { timeoutMs })
    } catch (error) {
      const reason = error instanceof PodExecError ? error.reason : reasonOf(error)
      if (Date.now() - began >= timeoutMs)
        this.#silent.set(pod.name, { until: Date.now() + SILENCE_MS, reason })
      throw new Trouble(`a command could not be run in Pod ${pod.name} (${reason})`)
    }
  }

  /**
   * Nodes whose machine is not running, or why the driver can't determine them; none if the query
   * would have to wait.
   */
  async stoppedNodes(): Promise<string[]> {
    try {
      return await this.cluster.stoppedNodes()
    } catch (error) {
      return [reasonOf(error)]
    }
  }

  /** A Pod's log of the last seconds. Throws Trouble when it can't be read. */
  async log({ name, ...place }: PodName, sinceSeconds: number): Promise<string> {
    try {
      return (await this.client.core.readNamespacedPodLog({ ...place, name, sinceSeconds })) ?? ''
    } catch (error) {
      throw new Trouble(`the log of Pod ${name} could not be read (${reasonOf(error)})`)
    }
  }
}

/** The source of a round's snapshots, and its live cluster. */
export interface SnapshotSource {
  snapshot(): Promise<Snapshot>
  /** Absent for a capture, which does not change and is read once. */
  live?: LiveCluster
}

/** A running cluster as a source of snapshots. */
export type OpenedCluster = SnapshotSource & { live: LiveCluster }

/**
 * Opens the source of snapshots: a capture folder, or the cluster that CLUSTER and NAME select.
 * Throws Refusal.
 */
export async function openSource(source: Source): Promise<SnapshotSource> {
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
 * The maximum time to wait, before nodes are read, until kube-proxies have programmed the current
 * objects, if the driver can detect it.
 */
const SYNC_MS = 3000

/**
 * A running cluster as a source of snapshots, whose nodes are read in this depth. Throws Refusal
 * when it is not up.
 */
export async function openCluster(
  cluster: Cluster,
  { depth, ...options }: { keepMoments?: boolean; depth?: ReportDepth } = {},
): Promise<OpenedCluster> {
  await requireUp(cluster)
  const client = await kubeClient(cluster)
  const live = new LiveCluster(cluster, client, options)
  const snapshot = async () => {
    const unsynced = await cluster.synced(SYNC_MS)
    return new Snapshot(await takeCapture(cluster, client, depth), undefined, unsynced)
  }
  return { live, snapshot }
}
