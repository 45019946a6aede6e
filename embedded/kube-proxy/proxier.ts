import type { Link } from '../../dataplane/ip-addr.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import type { GuestNode, StepsResult, Sysctl } from './guest-node.ts'
import type { Logger, Settings } from './settings.ts'
import type { SyncKind } from './sync-metrics.ts'

/** The input of a proxier of any mode. */
export interface ProxierContext {
  node: string
  guest: GuestNode
  settings: Settings
  /** `v1.34.0` */
  version: string
  log: Logger
  /** Requests an additional sync. */
  request(): void
}

/** What one sync writes. */
export interface SyncChange {
  /** Predicted from `objects`. */
  wanted: NodeState
  current: NodeState
  /** `current` was read from the node in this sync. */
  full: boolean
  objects: ClusterObjects
}

/** FullSyncPeriod of pkg/proxy/iptables and nftables. */
export const hourMs = 3_600_000

/** All addresses of a node except those of Services. */
const ownAddresses = (links: readonly Link[]): string[] =>
  links
    .filter(({ name }) => name !== DUMMY_LINK)
    .flatMap(({ addresses }) => addresses.map(({ address }) => address))

/**
 * One mode of kube-proxy on one node. A full sync reads the node and corrects all differences: the
 * first one, one after a failure, and periodically. Any other sync writes only the differences from
 * what this kube-proxy has programmed, so that changes made by hand stay until the next full sync.
 */
export abstract class Proxier {
  /** The maximum interval of full syncs. */
  abstract readonly maxIntervalMs: number
  /** The node's addresses at the last full sync, without those of kube-ipvs0. */
  addresses: ReadonlySet<string> = new Set()
  /** What the running or the last sync is, for the metrics. */
  kind: SyncKind = { full: true }
  protected readonly context: ProxierContext
  protected programmed: NodeState | undefined
  protected abstract readonly mode: KubeProxyMode
  #fullAt = 0

  constructor(context: ProxierContext) {
    this.context = context
  }

  /** The settings of the node that this mode needs. */
  readonly sysctls: readonly Sysctl[] = []
  /** Checks the kernel. Throws StartFailure if this mode can't run. */
  abstract prepare(): Promise<void>
  /** Reads the parts of the node that this mode writes. */
  protected abstract read(): Promise<NodeState>
  /** Writes the differences. */
  protected abstract write(change: SyncChange): Promise<StepsResult>
  /** Source line and message of kube-proxy's log entry for a failed sync. */
  protected abstract readonly failure: readonly [place: string, message: string]

  /** Writes what is predicted from these objects. Throws if a command failed. */
  async sync(objects: ClusterObjects, periodic: boolean): Promise<void> {
    const { node, version, log, settings } = this.context
    const present =
      periodic || Date.now() - this.#fullAt > this.maxIntervalMs ? undefined : this.programmed
    this.kind = { full: !present }
    const current = present ?? (await this.read())
    if (!present) this.addresses = new Set(ownAddresses(current.links))
    const { mode } = this
    const nodeAddresses = [...this.addresses]
    const wanted = predict(objects, { node, mode, version, config: settings.config, nodeAddresses })
    this.programmed = undefined
    const { ok, errors } = await this.write({ wanted, current, full: !present, objects })
    if (!ok) {
      log('E', ...this.failure, { err: `exit status 1: ${errors.join('; ')}`, ipFamily: 'IPv4' })
      throw new Error(`retryingTime=${settings.syncPeriodMs / 1000}s`)
    }
    this.programmed = wanted
    if (!present) this.#fullAt = Date.now()
  }

  stop(): void | Promise<void> {}
}
