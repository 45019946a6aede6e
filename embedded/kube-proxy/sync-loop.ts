import type { Link } from '../../dataplane/ip-addr.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import type { BuiltinContainer, BuiltinContext } from '../kubelet/images/registry.ts'
import type { Machine } from '../machine/machine.ts'
import type { GuestNode, Sysctl } from './guest-node.ts'
import type { Logger, Settings } from './settings.ts'

/** The input of a proxier of any mode. */
export interface ProxierContext {
  node: string
  guest: GuestNode
  settings: Settings
  /** `v1.34.0` */
  version: string
  log: Logger
  objects(): ClusterObjects
  /** Requests an additional sync. */
  request(): void
}

/** One mode of kube-proxy on one node. */
export interface Proxier {
  /**
   * The maximum interval of syncs (pkg/proxy: FullSyncPeriod of iptables is one hour, IPVS uses syncPeriod).
   */
  readonly maxIntervalMs: number
  /** Checks the kernel and returns the sysctls to set. Throws StartFailure if this mode can't run. */
  prepare(): Promise<Sysctl[]>
  sync(periodic: boolean): Promise<void>
  /** The node's addresses at the last full sync, without those of kube-ipvs0. */
  readonly addresses: ReadonlySet<string>
  stop(): void | Promise<void>
}

/** All addresses of a node except those of Services. */
export const ownAddresses = (links: readonly Link[]): string[] =>
  links.filter(({ name }) => name !== DUMMY_LINK).flatMap(({ addresses }) => addresses.map(({ address }) => address))

/** The prediction for this node from the current objects. */
export function predictFor(context: ProxierContext, mode: KubeProxyMode, addresses: Iterable<string>): NodeState {
  const { node, version, settings, objects } = context
  return predict(objects(), { node, mode, version, config: settings.config, nodeAddresses: [...addresses] })
}

/**
 * The part of a container's context that kube-proxy uses; the placement is the node's, because of
 * hostNetwork.
 */
export type KubeProxyContext = Pick<BuiltinContext, 'pod' | 'node' | 'machine' | 'placement' | 'api' | 'log'>

/** A running kube-proxy. `stop` closes its ports; the rules that it programmed stay on the node. */
export interface KubeProxyContainer extends BuiltinContainer {
  stop(): Promise<void>
}

/**
 * The kube-proxy of a node, for callers that wait until it has no pending changes. Its state is read only
 * from the node.
 */
export interface RunningKubeProxy {
  /** Resolves when every change it was notified of is programmed or has failed, or when it has ended. */
  synced(): Promise<void>
}

/** The last started kube-proxy by machine and node; genuine ones are not included. */
const running = new WeakMap<Machine, Map<string, RunningKubeProxy>>()

/** Registers a kube-proxy for `syncedOn`. */
export function noteRunning(machine: Machine, node: string, kubeProxy: RunningKubeProxy): void {
  const ofMachine = running.get(machine) ?? new Map<string, RunningKubeProxy>()
  running.set(machine, ofMachine.set(node, kubeProxy))
}

/**
 * Resolves when a node's kube-proxy has programmed what it was notified of; immediately for a genuine
 * kube-proxy.
 */
export async function syncedOn(machine: Machine, node: string): Promise<void> {
  await running.get(machine)?.get(node)?.synced()
}

/** Changes within this time are combined into one sync, for example when twenty Services are created. */
const coalesceMs = 40
/** The maximum delay of a change. */
const longestMs = 250

export interface SyncLoopOptions {
  /** Minimum interval of syncs after a burst (kube-proxy's BoundedFrequencyRunner). */
  minIntervalMs: number
  /** Number of syncs without the minimum interval after an idle time. */
  burst: number
  /** Maximum interval of syncs. */
  maxIntervalMs: number
  /** Runs one sync; `periodic` if only the timer caused it. An error is reported and retried. */
  sync(periodic: boolean): Promise<void>
  retryMs: number
  onError(error: unknown): void
}

/** Runs syncs one at a time: shortly after a change, never more often than allowed, and periodically. */
export class SyncLoop {
  private readonly options: SyncLoopOptions
  private timer: NodeJS.Timeout | undefined
  /** The time of the next periodic sync or retry. */
  private clock = Number.POSITIVE_INFINITY
  private running: Promise<void> = Promise.resolve()
  private busy = false
  /** The time of the first change that no sync has included yet. */
  private askedAt: number | undefined
  private stopped = false
  private waiting: (() => void)[] = []
  private tokens: number
  private refilledAt = Date.now()

  constructor(options: SyncLoopOptions) {
    this.options = options
    this.tokens = options.burst
  }

  /** Requests a sync because of a change. */
  request(): void {
    this.askedAt ??= Date.now()
    if (!this.busy) this.schedule()
  }

  /**
   * Resolves when all requested syncs are done or have failed and will be retried, or when the loop has
   * ended.
   */
  settled(): Promise<void> {
    if (this.stopped || (this.askedAt === undefined && !this.busy)) return Promise.resolve()
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  /** Ends the loop; resolves when the running sync is done. */
  async stop(): Promise<void> {
    this.stopped = true
    clearTimeout(this.timer)
    await this.running
    this.release()
  }

  /** Milliseconds until a sync may begin again. */
  private waitForToken(): number {
    const { minIntervalMs, burst } = this.options
    if (minIntervalMs <= 0) return 0
    const now = Date.now()
    const earned = Math.floor((now - this.refilledAt) / minIntervalMs)
    if (earned > 0) {
      this.tokens = Math.min(burst, this.tokens + earned)
      this.refilledAt = now
    }
    return this.tokens > 0 ? 0 : minIntervalMs - (now - this.refilledAt)
  }

  /** Resets the timer: for a pending change, and for the periodic sync. */
  private schedule(): void {
    clearTimeout(this.timer)
    if (this.stopped) return
    const now = Date.now()
    const quiet = this.askedAt === undefined ? Number.POSITIVE_INFINITY : this.askedAt + longestMs - now
    const asked = Math.max(Math.min(coalesceMs, quiet), this.waitForToken())
    const delay = Math.max(0, this.askedAt === undefined ? this.clock - now : Math.min(asked, this.clock - now))
    this.timer = setTimeout(() => {
      this.running = this.run()
    }, delay)
  }

  private async run(): Promise<void> {
    const periodic = this.askedAt === undefined
    this.askedAt = undefined
    this.busy = true
    if (!periodic) {
      this.waitForToken()
      this.tokens = Math.max(0, this.tokens - 1)
    }
    let next = this.options.maxIntervalMs
    try {
      await this.options.sync(periodic)
    } catch (error) {
      if (!this.stopped) this.options.onError(error)
      next = Math.min(next, this.options.retryMs)
    }
    this.busy = false
    this.clock = Date.now() + next
    this.schedule()
    if (this.askedAt === undefined) this.release()
  }

  private release(): void {
    for (const resolve of this.waiting.splice(0)) resolve()
  }
}
