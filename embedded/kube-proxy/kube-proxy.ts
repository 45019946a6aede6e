import type { V1Node } from '@kubernetes/client-node'
import { trackEndpoints } from '../../dataplane/kube-proxy/endpoints.ts'
import { setNames } from '../../dataplane/kube-proxy/ipvs/sets.ts'
import { servicePorts } from '../../dataplane/kube-proxy/service-ports.ts'
import { featuresOf, VersionError } from '../../dataplane/kube-proxy/versions.ts'
import { type ClusterObjects, leftOutObjects, readObjects } from '../../dataplane/objects.ts'
import { programText } from '../../host/program-text.ts'
import type { KubeObject } from '../apiserver/api.ts'
import type { BuiltinContainer, BuiltinContext } from '../kubelet/images/registry.ts'
import { ConntrackCleanup } from './conntrack-cleanup.ts'
import { GuestNode, prepareNode } from './guest-node.ts'
import { HealthServer, nodeHealthChecks } from './health-server.ts'
import { IptablesProxier } from './iptables-proxier.ts'
import { IpvsProxier } from './ipvs-proxier.ts'
import { NftablesProxier } from './nftables-proxier.ts'
import type { Proxier } from './proxier.ts'
import {
  createLogger,
  type Logger,
  mountedConfig,
  readSettings,
  type Settings,
  StartFailure,
} from './settings.ts'
import { SyncLoop } from './sync-loop.ts'
import { SyncMetrics } from './sync-metrics.ts'
import { UserspaceProxier } from './userspace-proxier.ts'

const proxiers = {
  iptables: IptablesProxier,
  ipvs: IpvsProxier,
  nftables: NftablesProxier,
  userspace: UserspaceProxier,
}

/**
 * The part of a container's context that kube-proxy uses; the placement is the node's, because of
 * hostNetwork.
 */
export type KubeProxyContext = Pick<
  BuiltinContext,
  'pod' | 'node' | 'machine' | 'placement' | 'api' | 'log'
>

const cleanup = programText('embedded/kube-proxy/cleanup.sh')

const resources = ['nodes', 'services', 'endpointslices'] as const

/**
 * The properties of a Node that affect kube-proxy: a heartbeat changes none of them, and must not
 * cause a sync.
 */
function proxiedFacts(object: KubeObject): string {
  const node = object as KubeObject & Partial<Pick<V1Node, 'spec' | 'status'>>
  const { labels, deletionTimestamp } = node.metadata
  return JSON.stringify([labels, deletionTimestamp, node.spec?.podCIDRs, node.status?.addresses])
}

/** The objects that kube-proxy can use, and one sentence for each of the others. */
export function usableObjects(items: readonly object[]): {
  objects: ClusterObjects
  leftOut: readonly string[]
} {
  const { objects, faults } = readObjects({ apiVersion: 'v1', kind: 'List', items })
  return { objects, leftOut: leftOutObjects(faults) }
}

/** kube-proxy of one node, in the version that its image's tag names. */
export class KubeProxy implements BuiltinContainer {
  readonly exited: Promise<number>
  readonly programs: BuiltinContainer['programs']
  readonly #context: KubeProxyContext
  readonly #version: string
  readonly #log: Logger
  readonly #guest: GuestNode
  readonly #health: HealthServer
  readonly #conntrack: ConntrackCleanup
  #proxier: Proxier | undefined
  #loop: SyncLoop | undefined
  #endWatches: (() => void)[] = []
  #toldLeftOut: readonly string[] = []
  #settle: (code: number) => void = () => {}
  readonly #started: Promise<void>
  #stopping: Promise<void> | undefined

  constructor(context: KubeProxyContext, version: string) {
    this.#context = context
    this.#version = version
    this.programs = {
      'kube-proxy': ['sh', '-c', cleanup, 'kube-proxy', version, setNames('ipv4').join(' ')],
    }
    this.#log = createLogger(context.log)
    this.#guest = new GuestNode(context.machine, context.placement)
    this.#conntrack = new ConntrackCleanup(this.#guest)
    this.#health = new HealthServer(this.#guest)
    this.exited = new Promise((resolve) => {
      this.#settle = resolve
    })
    this.#started = this.#start().catch((error: unknown) => this.#fail(error))
  }

  /**
   * Resolves when every change it was notified of is programmed or has failed, or when it has
   * ended.
   */
  async synced(): Promise<void> {
    await this.#started
    await this.#loop?.settled()
  }

  /** Closes its ports; the rules that it programmed stay on the node. */
  stop(): Promise<void> {
    this.#stopping ??= this.#end()
    return this.#stopping
  }

  async #end(code = 0): Promise<void> {
    for (const end of this.#endWatches) end()
    await this.#loop?.stop()
    // If the machine has ended, there is nothing to stop.
    await this.#proxier?.stop()?.catch(() => {})
    await this.#health.close().catch(() => {})
    this.#settle(code)
  }

  #fail(error: unknown): void {
    if (this.#stopping) return
    const reason = error instanceof Error ? error.message : String(error)
    if (error instanceof StartFailure && reason.startsWith("can't use"))
      this.#log('E', 'server.go:137', 'Error running ProxyServer', { err: reason })
    this.#log('E', 'run.go:72', 'command failed', { err: reason })
    this.#stopping = this.#end(1)
  }

  async #start(): Promise<void> {
    const settings = readSettings(
      mountedConfig(this.#context.pod, this.#context.api),
      this.#version,
    )
    const proxier = new proxiers[settings.mode]({
      node: this.#context.node,
      guest: this.#guest,
      settings,
      version: this.#version,
      log: this.#log,
      request: () => this.#loop?.request(),
    })
    this.#proxier = proxier
    await proxier.prepare()
    await prepareNode(
      this.#guest,
      [...proxier.sysctls, ...settings.sysctls],
      settings.mode === 'nftables',
    )
    const metrics = new SyncMetrics(settings.mode, featuresOf(this.#version))
    await this.#health.publish(metrics.print())
    if (this.#stopping) return
    this.#log('I', 'server.go:527', 'Version info', { version: this.#version })
    this.#loop = new SyncLoop({
      minIntervalMs: settings.minSyncPeriodMs,
      burst: featuresOf(this.#version).syncBurst,
      maxIntervalMs: proxier.maxIntervalMs,
      retryMs: settings.syncPeriodMs,
      sync: (periodic) => this.#sync(proxier, { settings, metrics, periodic }),
      onError: (error) => this.#reportSync(error),
    })
    this.#follow()
    this.#loop.request()
  }

  #follow(): void {
    const { api, node } = this.#context
    const own = api.get('nodes', undefined, node)
    let facts = own && proxiedFacts(own)
    this.#endWatches = resources.map((resource) =>
      api.watch(resource, (_type, object) => {
        if (resource === 'nodes') {
          const before = facts
          if (object.metadata.name === node) facts = proxiedFacts(object)
          if (facts === before) return
        }
        this.#loop?.request()
      }),
    )
  }

  async #sync(
    proxier: Proxier,
    {
      settings,
      metrics,
      periodic,
    }: { settings: Settings; metrics: SyncMetrics; periodic: boolean },
  ): Promise<void> {
    const { api, node } = this.#context
    const { objects, leftOut } = usableObjects(resources.flatMap((resource) => api.list(resource)))
    this.#reportLeftOut(leftOut)
    const features = featuresOf(this.#version)
    const ports = servicePorts(
      objects,
      trackEndpoints(objects, node, 'ipv4', features),
      'ipv4',
      features,
    )
    await Promise.all([
      this.#health.serve(settings, nodeHealthChecks(ports)),
      this.#measured(metrics, proxier, () => proxier.sync(objects, periodic)),
    ])
    await this.#conntrack.after(ports, proxier.addresses)
  }

  /** Runs a sync and publishes how long it took. */
  async #measured(
    metrics: SyncMetrics,
    proxier: Proxier,
    sync: () => Promise<void>,
  ): Promise<void> {
    const began = performance.now()
    const seconds = () => (performance.now() - began) / 1000
    try {
      await sync()
      metrics.observe(seconds(), proxier.kind, Date.now())
    } catch (error) {
      metrics.observe(seconds(), proxier.kind)
      throw error
    } finally {
      await this.#health.publish(metrics.print())
    }
  }

  /** Logs each object that this kube-proxy ignores, once. */
  #reportLeftOut(leftOut: readonly string[]): void {
    for (const reason of leftOut)
      if (!this.#toldLeftOut.includes(reason))
        this.#log('E', 'service-objects.ts:51', 'Object left out', { err: reason })
    this.#toldLeftOut = leftOut
  }

  #reportSync(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    if (error instanceof VersionError) this.#fail(error)
    else this.#log('E', 'proxier.go:1563', 'Sync failed', { ipFamily: 'IPv4', err: reason })
  }
}
