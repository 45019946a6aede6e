import type { Link } from '../../dataplane/ip-addr.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/ipvs/state.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import type { GuestNode } from './guest-node.ts'
import type { Logger } from './klog.ts'
import type { Settings } from './settings.ts'
import type { Sysctl } from './sysctls.ts'

/** What a proxier of any mode works with. */
export interface ProxierContext {
  node: string
  guest: GuestNode
  settings: Settings
  /** `v1.34.0` */
  version: string
  log: Logger
  objects(): ClusterObjects
  /** Asks for a sync out of turn. */
  request(): void
}

/** One mode of kube-proxy on one node. */
export interface Proxier {
  /** A sync at least this often (pkg/proxy: FullSyncPeriod of iptables is an hour, IPVS syncs at its syncPeriod). */
  readonly maxIntervalMs: number
  /** Checks the kernel, and names the sysctls to set. Throws StartFailure when this mode can't run. */
  prepare(): Promise<Sysctl[]>
  sync(periodic: boolean): Promise<void>
  /** The node's addresses, kube-ipvs0 left out, as of the last full sync. */
  readonly addresses: ReadonlySet<string>
  stop(): void | Promise<void>
}

/** All addresses of a node that are not Services'. */
export const ownAddresses = (links: readonly Link[]): string[] =>
  links.filter(({ name }) => name !== DUMMY_LINK).flatMap(({ addresses }) => addresses.map(({ address }) => address))

/** The prediction for this node from the objects of this moment. */
export function predictFor(context: ProxierContext, mode: KubeProxyMode, addresses: Iterable<string>): NodeState {
  const { node, version, settings, objects } = context
  return predict(objects(), { node, mode, version, config: settings.config, nodeAddresses: [...addresses] })
}
