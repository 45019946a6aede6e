import type { V1Node } from '@kubernetes/client-node'
import { featuresOf, VersionError } from '../../dataplane/kube-proxy/versions.ts'
import type { KubeObject } from '../apiserver/api.ts'
import { ConntrackCleanup, GuestNode, prepareNode, type Sysctl } from './guest-node.ts'
import { HealthServer } from './health-server.ts'
import { IptablesProxier } from './iptables-proxier.ts'
import { IpvsProxier } from './ipvs-proxier.ts'
import { NftablesProxier } from './nftables-proxier.ts'
import { ServiceObjects, serviceBackends } from './service-objects.ts'
import { createLogger, type Logger, mountedConfig, readSettings, type Settings, StartFailure } from './settings.ts'
import {
  type KubeProxyContainer,
  type KubeProxyContext,
  noteRunning,
  type Proxier,
  type ProxierContext,
  type RunningKubeProxy,
  SyncLoop,
} from './sync-loop.ts'
import { UserspaceProxier } from './userspace-proxier.ts'

/** The properties of a Node that affect kube-proxy, without its heartbeat. */
const nodeFacts = (object: KubeObject): string => {
  const node = object as KubeObject & Partial<Pick<V1Node, 'spec' | 'status'>>
  const { labels, deletionTimestamp } = node.metadata
  const { podCIDRs, taints } = node.spec ?? {}
  return JSON.stringify([labels, deletionTimestamp, podCIDRs, taints, node.status?.addresses])
}

const proxiers = {
  iptables: IptablesProxier,
  ipvs: IpvsProxier,
  nftables: NftablesProxier,
  userspace: UserspaceProxier,
}

/** kube-proxy of one node, in the version that its image's tag names. */
export class KubeProxy implements KubeProxyContainer, RunningKubeProxy {
  readonly exited: Promise<number>
  private readonly context: KubeProxyContext
  private readonly version: string
  private readonly log: Logger
  private readonly guest: GuestNode
  private readonly health: HealthServer
  private readonly conntrack: ConntrackCleanup
  private readonly objects: ServiceObjects
  private proxier: Proxier | undefined
  private loop: SyncLoop | undefined
  private endWatch: (() => void) | undefined
  private toldLeftOut: readonly string[] = []
  private settle: (code: number) => void = () => {}
  private readonly started: Promise<void>
  private stopping: Promise<void> | undefined

  constructor(context: KubeProxyContext, version: string) {
    this.context = context
    this.version = version
    this.log = createLogger(context.log)
    this.guest = new GuestNode(context.machine, context.placement)
    this.conntrack = ConntrackCleanup.on(context.machine, context.node, this.guest)
    this.health = new HealthServer(context.machine, context.placement)
    this.objects = ServiceObjects.of(context.api)
    this.exited = new Promise((resolve) => {
      this.settle = resolve
    })
    this.started = this.start().catch((error: unknown) => this.fail(error))
    noteRunning(context.machine, context.node, this)
  }

  async synced(): Promise<void> {
    await this.started
    await this.loop?.settled()
  }

  stop(): Promise<void> {
    this.stopping ??= this.end()
    return this.stopping
  }

  private async end(code = 0): Promise<void> {
    this.endWatch?.()
    await this.loop?.stop()
    // If the machine has ended, there is nothing to stop.
    await this.proxier?.stop()?.catch(() => {})
    await this.health.close().catch(() => {})
    this.settle(code)
  }

  private fail(error: unknown): void {
    if (this.stopping) return
    const reason = error instanceof Error ? error.message : String(error)
    if (error instanceof StartFailure && reason.startsWith("can't use"))
      this.log('E', 'server.go:137', 'Error running ProxyServer', { err: reason })
    this.log('E', 'run.go:72', 'command failed', { err: reason })
    this.stopping = this.end(1)
  }

  private async start(): Promise<void> {
    const settings = readSettings(mountedConfig(this.context.pod, this.context.api), this.version)
    if (settings.mode === 'iptables') this.log('I', 'server_linux.go:53', 'Using iptables proxy')
    this.logStart(settings)
    const context: ProxierContext = {
      node: this.context.node,
      guest: this.guest,
      settings,
      version: this.version,
      log: this.log,
      objects: () => this.objects.current(),
      request: () => this.loop?.request(),
    }
    const proxier = new proxiers[settings.mode](context)
    this.proxier = proxier
    const sysctls = [...(await proxier.prepare()), ...conntrackSysctls(settings)]
    settings.config.nfacct = await prepareNode(this.guest, this.log, sysctls, settings.mode === 'nftables')
    if (this.stopping) return
    this.logControllers()
    this.loop = new SyncLoop({
      minIntervalMs: settings.minSyncPeriodMs,
      burst: featuresOf(this.version).syncBurst,
      maxIntervalMs: proxier.maxIntervalMs,
      retryMs: settings.syncPeriodMs,
      sync: (periodic) => this.sync(proxier, settings, periodic),
      onError: (error) => this.reportSync(error),
    })
    this.follow()
    this.loop.request()
  }

  private follow(): void {
    const { api, node } = this.context
    let facts = ''
    this.endWatch = this.objects.subscribe(api, ({ resource, object }) => {
      if (resource === 'nodes') {
        if (object.metadata.name !== node || nodeFacts(object) === facts) return
        facts = nodeFacts(object)
      }
      this.loop?.request()
    })
  }

  private async sync(proxier: Proxier, settings: Settings, periodic: boolean): Promise<void> {
    this.reportLeftOut()
    await Promise.all([this.serveHealth(settings), proxier.sync(periodic)])
    await this.conntrack.after(this.backends().udp, proxier.addresses)
  }

  /** Logs each object that this kube-proxy ignores, once. */
  private reportLeftOut(): void {
    const leftOut = this.objects.leftOut()
    for (const reason of leftOut)
      if (!this.toldLeftOut.includes(reason)) this.log('E', 'service-objects.ts:51', 'Object left out', { err: reason })
    this.toldLeftOut = leftOut
  }

  private backends() {
    return serviceBackends(this.objects.current(), this.context.node, this.version)
  }

  private serveHealth(settings: Settings): Promise<void> {
    const { api, node } = this.context
    const self = api.get<KubeObject & Pick<V1Node, 'spec'>>('nodes', undefined, node)
    const leaving = self?.spec?.taints?.some(({ key }) => key === 'ToBeDeletedByClusterAutoscaler') ?? false
    return this.health.serve({
      mode: settings.mode,
      healthzPort: settings.healthzPort,
      metricsPort: settings.metricsPort,
      eligible: self !== undefined && !leaving && self.metadata.deletionTimestamp === undefined,
      healthChecks: this.backends().healthChecks,
    })
  }

  private reportSync(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    if (error instanceof VersionError) this.fail(error)
    else this.log('E', 'proxier.go:1563', 'Sync failed', { ipFamily: 'IPv4', err: reason })
  }

  private logStart({ config }: Settings): void {
    const { api, node } = this.context
    const self = api.get<KubeObject & Pick<V1Node, 'status'>>('nodes', undefined, node)
    const addresses = self?.status?.addresses?.filter(({ type }) => type === 'InternalIP').map(({ address }) => address)
    this.log('I', 'server.go:219', 'Successfully retrieved NodeIPs', { NodeIPs: addresses ?? [] })
    if (config.nodePortAddresses.length === 0)
      this.log('E', 'server.go:256', 'Kube-proxy configuration may be incomplete or incorrect', {
        err: 'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`',
      })
  }

  private logControllers(): void {
    this.log('I', 'server.go:527', 'Version info', { version: this.version })
    this.log('I', 'server.go:529', 'Golang settings', { GOGC: '', GOMAXPROCS: '', GOTRACEBACK: '' })
    for (const [line, name] of [
      [200, 'service'],
      [106, 'endpoint slice'],
      [309, 'node'],
    ] as const) {
      this.log('I', `config.go:${line}`, `Starting ${name} config controller`)
      this.log('I', 'shared_informer.go:349', 'Waiting for caches to sync', { controller: `${name} config` })
      this.log('I', 'shared_informer.go:356', 'Caches are synced', { controller: `${name} config` })
    }
  }
}

/** nf_conntrack_max is unchanged if maxPerCore is 0, as in kind. */
function conntrackSysctls({ config, conntrack }: Settings): Sysctl[] {
  const { establishedSeconds, closeWaitSeconds } = conntrack
  const sysctls: Sysctl[] = []
  if (establishedSeconds > 0) sysctls.push(['net/netfilter/nf_conntrack_tcp_timeout_established', establishedSeconds])
  if (closeWaitSeconds > 0) sysctls.push(['net/netfilter/nf_conntrack_tcp_timeout_close_wait', closeWaitSeconds])
  if (config.conntrackTCPLiberal) sysctls.push(['net/netfilter/nf_conntrack_tcp_be_liberal', 1])
  return sysctls
}
