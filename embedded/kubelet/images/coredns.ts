import type { Api } from '../../apiserver/api.ts'
import type { EndpointSlice, Service } from '../../controllers/resources.ts'
import type { GuestProcess } from '../../machine/machine.ts'
import type { BuiltinContext, BuiltinImage } from './registry.ts'

const settings = [
  ...[
    '--keep-in-foreground',
    '--port=53',
    '--user=root',
    '--group=root',
    '--pid-file',
    '--log-facility=-',
    '--no-resolv',
    '--no-hosts',
  ],
  ...['--local=/cluster.local/', '--local=/in-addr.arpa/', '--local-ttl=30', '--cache-size=0', '--bind-dynamic'],
]

// Changes of Endpoints occur in bursts, and each needs a signal or a new process.
const settleMs = 50

function onChange(api: Api, changed: () => void): () => void {
  const ends = ['services', 'endpointslices'].map((resource) => api.watch(resource, changed))
  return () => {
    for (const end of ends) end()
  }
}

/**
 * dnsmasq in one Pod, kept up to date: addresses through a file that it rereads, SRV records through a new process.
 */
class NameServer {
  readonly exited: Promise<number>
  private readonly context: BuiltinContext
  private readonly hostsFile: string
  private process: GuestProcess | undefined
  private zone: DnsZone = { hosts: '', services: [] }
  private timer: NodeJS.Timeout | undefined
  private finish: (exitCode: number) => void = () => {}
  private stopped = false
  private readonly unwatch: () => void

  constructor(context: BuiltinContext) {
    this.context = context
    this.hostsFile = `/run/pods/${context.pod.metadata.uid}/dns-hosts`
    this.exited = new Promise((resolve) => {
      this.finish = resolve
    })
    this.unwatch = onChange(context.api, () => {
      this.timer ??= setTimeout(() => void this.refresh(), settleMs)
    })
  }

  async start(): Promise<void> {
    this.zone = dnsZone(this.context.api)
    await this.context.machine.write([{ path: this.hostsFile, content: this.zone.hosts }])
    await this.launch()
    this.context.log('.:53')
    this.context.log('dnsmasq replaces CoreDNS')
  }

  private async launch(): Promise<void> {
    const { machine, placement, stderr } = this.context
    const records = this.zone.services.map((record) => `--srv-host=${record}`)
    const process = await machine.spawn(
      ['dnsmasq', ...settings, `--addn-hosts=${this.hostsFile}`, ...records],
      placement,
      { noInput: true },
    )
    this.process = process
    process.stdout.resume()
    const serving = new Promise<void>((resolve) => {
      process.stderr.on('data', (bytes: Buffer) => {
        for (const line of bytes.toString().trimEnd().split('\n')) stderr(line)
        if (bytes.includes('read ') || bytes.includes('started')) resolve()
      })
      void process.exited.then(() => resolve())
    })
    void process.exited.then(({ code }) => {
      if (this.process !== process) return
      this.unwatch()
      this.finish(code ?? 137)
    })
    await serving
  }

  private async refresh(): Promise<void> {
    this.timer = undefined
    if (this.stopped) return
    const before = this.zone
    this.zone = dnsZone(this.context.api)
    try {
      if (before.hosts !== this.zone.hosts)
        await this.context.machine.write([{ path: this.hostsFile, content: this.zone.hosts }])
      if (before.services.join() !== this.zone.services.join()) await this.relaunch()
      else if (before.hosts !== this.zone.hosts) this.process?.kill('SIGHUP')
    } catch {
      // The machine is being stopped.
    }
  }

  private async relaunch(): Promise<void> {
    const old = this.process
    this.process = undefined
    old?.kill('SIGTERM')
    await old?.exited
    if (!this.stopped) await this.launch()
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
    this.unwatch()
    const { process } = this
    this.process = undefined
    process?.kill('SIGTERM')
    void (process?.exited ?? Promise.resolve()).then(() => this.finish(0))
  }
}

/** Cluster DNS. There is no Debian package of CoreDNS, so dnsmasq replaces it. */
export const coredns: BuiltinImage = {
  names: ['registry.k8s.io/coredns/coredns', 'registry.k8s.io/coredns', 'coredns/coredns'],
  tags: /^v1\.\d+\.\d+$/,
  about: 'cluster DNS, played by dnsmasq',
  async start(context) {
    const server = new NameServer(context)
    await server.start()
    return { exited: server.exited, stop: () => server.stop() }
  },
}

/** Cluster DNS as configuration of dnsmasq. */
export interface DnsZone {
  /** A hosts file: A and PTR records. */
  hosts: string
  /** Values of `srv-host`: name, target, port, priority, weight. */
  services: string[]
}

const domain = 'svc.cluster.local'

interface Port {
  name?: string | undefined
  protocol?: string | undefined
  port?: number | undefined
}

/**
 * Names of all Services by the Kubernetes DNS specification 1.1: a cluster IP, or for headless Services every ready
 * address (all of them with publishNotReadyAddresses), each also under its host name.
 */
function dnsZone(api: Api): DnsZone {
  const lines: string[] = []
  const services: string[] = []
  const slices = api.list<EndpointSlice>('endpointslices')
  for (const { metadata, spec } of api.list<Service>('services')) {
    const name = `${metadata.name}.${metadata.namespace}.${domain}`
    const record = (ports: readonly Port[], target: string) => {
      for (const { name: port, protocol = 'TCP', port: number } of ports)
        if (port && number) services.push(`_${port}._${protocol.toLowerCase()}.${name},${target},${number},0,100`)
    }
    if (spec.clusterIP !== 'None') {
      if (!spec.clusterIP) continue
      lines.push(`${spec.clusterIP} ${name}`)
      record(spec.ports ?? [], name)
      continue
    }
    for (const slice of slices) {
      const owner = slice.metadata.labels?.['kubernetes.io/service-name']
      if (owner !== metadata.name || slice.metadata.namespace !== metadata.namespace) continue
      if (slice.addressType !== 'IPv4') continue
      for (const { addresses, hostname, conditions } of slice.endpoints ?? []) {
        const [address] = addresses
        if (!address || (conditions?.ready === false && !spec.publishNotReadyAddresses)) continue
        const own = `${hostname ?? address.replaceAll('.', '-')}.${name}`
        // The first name of a line is the one a PTR query gets.
        lines.push(`${address} ${own}`, `${address} ${name}`)
        record(slice.ports ?? [], own)
      }
    }
  }
  return { hosts: lines.map((line) => `${line}\n`).join(''), services: services.sort() }
}
