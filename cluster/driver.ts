import type * as k8s from '@kubernetes/client-node'
import type { UnexpectedEnd } from '../embedded/index.ts'
import { UserError } from '../host/main.ts'
import type { Progress } from '../host/progress.ts'
import type { ExecOptions, ExecResult } from '../host/shell-word.ts'

export type DriverName = 'embedded' | 'kind' | 'context'

/** The typed APIs that scripts and checks use. */
export interface KubeClient {
  config: k8s.KubeConfig
  core: k8s.CoreV1Api
  apps: k8s.AppsV1Api
  discovery: k8s.DiscoveryV1Api
}

/** A place where labs run. Everything above it is the same code on every driver. */
export interface Cluster {
  readonly driver: DriverName
  readonly name: string
  /** Path of a kubeconfig that reaches this cluster, and nothing else. */
  readonly kubeconfig: string
  /** Clients for its API; where a driver has none, they are made from its kubeconfig (kubeClient). */
  client?(): Promise<KubeClient>
  /** True where every kube-proxy uses the node's own iptables, having no container with another one. */
  readonly ownIptables?: boolean
  /** True where all nodes run on one kernel: what it can do on one, it can do on all. */
  readonly sharedKernel?: boolean
  /** Idempotent: creates, finishes a half-made cluster, or does nothing. */
  up(progress: Progress): Promise<void>
  /** Idempotent: leaves no process, mount or file of the cluster. */
  down(progress: Progress): Promise<void>
  /** True when the API server answers. */
  running(): Promise<boolean>
  /** Why it is not up, where nobody stopped it; only where a driver can tell. */
  unexpectedEnd?(): UnexpectedEnd | undefined
  /** Nodes whose machine does not run at this moment, for people; only where a driver can tell at once. */
  stoppedNodes?(): Promise<string[]>
  /** Names of the nodes, control plane first. */
  nodes(): Promise<string[]>
  /** Runs one command on a node as root, in the node's own network namespace. */
  exec(node: string, command: readonly string[], options?: ExecOptions): Promise<ExecResult>
  /**
   * A cheaper way than `exec` to run a short shell script that reads no input and leaves nothing in the background, where a
   * driver has one (runOnNode).
   */
  script?(node: string, text: string, timeoutMs: number): Promise<ExecResult>
  /**
   * Resolves when every kube-proxy has programmed what the API holds, or time is up; only where a driver can tell. It proves
   * nothing: it spares looks at nodes that are about to change.
   */
  synced?(timeoutMs: number): Promise<void>
  /** An interactive shell on a node; resolves to its exit code. */
  shell(node: string, command?: readonly string[]): Promise<number>
  /** Writes a file on a node. */
  copyIn(node: string, path: string, content: string | Uint8Array): Promise<void>
}

/** When and why a cluster ended by itself. */
export const endText = ({ at, reason }: UnexpectedEnd) => (at === undefined ? reason : `at ${at}, ${reason}`)

type EndedCluster = Pick<Cluster, 'name' | 'unexpectedEnd'>

/** That a cluster is not up, and where it ended by itself, since when and why; without a full stop. */
export function downText(cluster: EndedCluster): string {
  const end = cluster.unexpectedEnd?.()
  return `The cluster "${cluster.name}" is not up${end ? `: ${endText(end)}; the log is "${end.log}"` : ''}`
}

/** What a command throws that needs a cluster which is not up. */
export const notUp = (cluster: EndedCluster): UserError =>
  new UserError(
    cluster.unexpectedEnd?.()
      ? `${downText(cluster)}. Run \`make up\` to start a new one.`
      : `${downText(cluster)}: run \`make up\`.`,
  )

/** @throws UserError, as notUp tells it, when a cluster is not up */
export async function requireUp(cluster: Cluster): Promise<void> {
  if (!(await cluster.running())) throw notUp(cluster)
}
