import type { BuiltinContainer, BuiltinContext } from '../kubelet/images/registry.ts'

/** What kube-proxy takes of what the kubelet gives a container; the placement is the node's, by hostNetwork. */
export type KubeProxyContext = Pick<BuiltinContext, 'pod' | 'node' | 'machine' | 'placement' | 'api' | 'log'>

/** A running kube-proxy. After `stop` nothing of it listens any more; what it programmed stays on the node. */
export interface KubeProxyContainer extends BuiltinContainer {
  stop(): Promise<void>
}
