import type { V1PodSpec } from '@kubernetes/client-node'
import type { Api } from '../apiserver/api.ts'
import type { Machine, Placement } from '../machine/machine.ts'

/** What kube-proxy is given by the kubelet that starts its container. */
export interface KubeProxyContext {
  pod: { metadata?: { uid?: string; namespace?: string }; spec?: Pick<V1PodSpec, 'volumes'> }
  /** Name of the node. */
  node: string
  machine: Machine
  /** The node's own namespaces: kube-proxy's Pod has hostNetwork. */
  placement: Placement
  api: Api
  /** One line of the container's log. */
  log(line: string): void
}

/** A running kube-proxy, as its container sees it. */
export interface KubeProxyContainer {
  /** Settles with the exit code when it ended by itself or was stopped. */
  readonly exited: Promise<number>
  /** Ends it; what it programmed stays on the node. Resolves when nothing of it listens any more. */
  stop(): Promise<void>
}
