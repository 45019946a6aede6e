import type * as k8s from '@kubernetes/client-node'
import type { UnexpectedEnd } from '../embedded/index.ts'
import { Refusal } from '../host/main.ts'
import type { Progress } from '../host/progress.ts'
import type { ExecOptions, ExecResult } from '../host/shell-word.ts'

/**
 * What the clusters of a driver are and can do. The code above cluster/ asks for this, and never
 * for a driver's name.
 */
export interface Capabilities {
  /**
   * The user's own cluster: changes need consent, only objects with our label are ours, and `down`
   * removes nothing else.
   */
  readonly ownedByUser: boolean
  /** A machine outside the cluster sends requests to its nodes (`OUTSIDE`). */
  readonly hasOutside: boolean
  /** Every command on a node is noted in the API: without a trace, nothing was done by hand. */
  readonly recordsCommands: boolean
  /** Every modelled version of kube-proxy can run, and not only the cluster's own. */
  readonly runsOldKubeProxies: boolean
  /** Every kube-proxy uses the node's own iptables, because no container brings another one. */
  readonly ownIptables: boolean
  /** All nodes share one kernel: its features are the same on all. */
  readonly sharedKernel: boolean
  /** The kernel was booted for this cluster and does nothing else: its modules can be removed. */
  readonly ownKernel: boolean
  /** A new cluster can be started on another kernel (KERNEL=). */
  readonly choosesKernel: boolean
  /** `synced` waits for the kube-proxies; otherwise it resolves at once. */
  readonly reportsSync: boolean
}

/**
 * Reads the JSON of a path of the API, such as `/api/v1/nodes`; undefined if the path does not
 * exist.
 */
export type ReadApi = (path: string) => Promise<unknown>

/** The APIs that scripts and checks use. */
export interface KubeClient {
  config: k8s.KubeConfig
  /**
   * For whole lists: the typed APIs convert each field, which is a third of the time that reading a
   * list takes.
   */
  read: ReadApi
  core: k8s.CoreV1Api
  apps: k8s.AppsV1Api
  /**
   * The options of a request whose body is a merge patch, as `kubectl patch --type merge` sends it.
   */
  mergePatch: k8s.ConfigurationOptions
  /** The same for a strategic merge patch. */
  strategicPatch: k8s.ConfigurationOptions
}

/** A cluster on which labs run. All code above it is the same for every driver. */
export interface Cluster {
  /** For messages and folders. */
  readonly driver: string
  /** The value of CLUSTER= that selects it. */
  readonly selector: string
  readonly capabilities: Capabilities
  readonly name: string
  /** Path of a kubeconfig with this cluster only. */
  readonly kubeconfig: string
  /** Clients for its API. Rejects with one sentence if it is not up. */
  client(): Promise<KubeClient>
  /** Idempotent: creates the cluster, completes an incomplete one, or does nothing. */
  up(progress: Progress): Promise<void>
  /** Idempotent: leaves no process, mount or file of the cluster. */
  down(progress: Progress): Promise<void>
  /** True when the API server responds. */
  running(): Promise<boolean>
  /** Why it is not up although it was not stopped, if that is known. */
  unexpectedEnd(): UnexpectedEnd | undefined
  /** Nodes whose machine does not run now, for messages; none if the query would have to wait. */
  stoppedNodes(): Promise<string[]>
  nodes(): Promise<string[]>
  /** Runs one command on a node as root, in the node's own network namespace. */
  exec(node: string, command: readonly string[], options?: ExecOptions): Promise<ExecResult>
  /**
   * Runs a shell script that reads no input and leaves nothing in the background (runOnNode), in
   * the cheapest manner that a driver has: a shell that waits on the node, or `execScript`. May
   * reject as soon as `signal` aborts.
   */
  script(node: string, text: string, timeoutMs: number, signal?: AbortSignal): Promise<ExecResult>
  /**
   * Resolves when every kube-proxy has programmed the current API objects, or after the timeout
   * (times LAB_TIMEOUT_SCALE); at once without `reportsSync`. Returns the nodes whose kube-proxy
   * has still something to program. It does not prove the state: it avoids reading nodes that are
   * about to change.
   */
  synced(timeoutMs: number): Promise<string[]>
  shell(node: string, command?: readonly string[]): Promise<number>
}

/** How scripts run on the nodes of a cluster, and whether they need consent. */
export type NodeAccess = Pick<Cluster, 'driver' | 'name' | 'capabilities' | 'exec' | 'script'>

/** A clause for messages: when and why a cluster ended by itself. */
export const endText = ({ at, reason }: UnexpectedEnd) =>
  at === undefined ? reason : `at ${at}, ${reason}`

type EndedCluster = Pick<Cluster, 'name' | 'unexpectedEnd'>

/**
 * The message that a cluster is not up and, if it ended by itself, when and why; without a full
 * stop.
 */
export function downText(cluster: EndedCluster): string {
  const end = cluster.unexpectedEnd()
  return `The cluster "${cluster.name}" is not up${end ? `: ${endText(end)}; the log is "${end.log}"` : ''}`
}

/** The cluster, or a part of it, does not run, and `make up` starts it. */
export class ClusterNotReady extends Refusal {
  readonly next = 'make up'
}

/** The error of a command that needs a running cluster. */
export const notUp = (cluster: EndedCluster): ClusterNotReady =>
  new ClusterNotReady(
    downText(cluster) +
      (cluster.unexpectedEnd() ? '. Run `make up` to start a new one.' : ': run `make up`.'),
  )

/** @throws ClusterNotReady from notUp when a cluster is not up */
export async function requireUp(cluster: Cluster): Promise<void> {
  if (!(await cluster.running())) throw notUp(cluster)
}
