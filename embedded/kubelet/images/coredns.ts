import type { Api } from '../../apiserver/api.ts'
import type { EndpointSlice, Service } from '../../controllers/resources.ts'
import type { GuestProcess } from '../../machine/machine.ts'
import type { BuiltinContainer, BuiltinContext, BuiltinImage } from './registry.ts'

const settings =
  `--keep-in-foreground --port=53 --user=root --group=root --pid-file --log-facility=- --no-resolv --no-hosts
--local=/cluster.local/ --local=/in-addr.arpa/ --local-ttl=30 --cache-size=0 --bind-dynamic`.split(/\s/)

// Changes of Endpoints occur in bursts, and each needs a signal or a new process.
const settleMs = 50

/**
 * Runs dnsmasq in one Pod and keeps it up to date: addresses through a file that it rereads, SRV records through a new process.
 */
async function startNameServer({
  api,
  machine,
  placement,
  pod,
  log,
  stderr,
}: BuiltinContext): Promise<BuiltinContainer> {
  const hostsFile = `/run/pods/${pod.metadata.uid}/dns-hosts`
  let zone = dnsZone(api)
  let server: GuestProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let finish: (exitCode: number) => void = () => {}
  const exited = new Promise<number>((resolve) => {
    finish = resolve
  })
  const watches: (() => void)[] = []
  const end = (exitCode: number) => {
    stopped = true
    clearTimeout(timer)
    for (const endWatch of watches) endWatch()
    finish(exitCode)
  }
  const writeHosts = () => machine.write([{ path: hostsFile, content: zone.hosts }])
  const launch = async () => {
    const records = zone.services.map((record) => `--srv-host=${record}`)
    const command = ['dnsmasq', ...settings, `--addn-hosts=${hostsFile}`, ...records]
    const process = await machine.spawn(command, placement, { noInput: true })
    server = process
    process.stdout.resume()
    void process.exited.then(({ code }) => {
      if (server === process) end(code ?? 137)
    })
    await new Promise<void>((serving) => {
      process.stderr.on('data', (bytes: Buffer) => {
        for (const line of bytes.toString().trimEnd().split('\n')) stderr(line)
        if (bytes.includes('read ') || bytes.includes('started')) serving()
      })
      void process.exited.then(() => serving())
    })
  }
  const endServer = async () => {
    const process = server
    server = undefined
    process?.kill('SIGTERM')
    await process?.exited
  }
  const refresh = async () => {
    timer = undefined
    const before = zone
    zone = dnsZone(api)
    if (before.hosts !== zone.hosts) await writeHosts()
    if (before.services.join() !== zone.services.join()) {
      await endServer()
      if (!stopped) await launch()
    } else if (before.hosts !== zone.hosts) server?.kill('SIGHUP')
  }
  await writeHosts()
  await launch()
  log('.:53')
  log('dnsmasq replaces CoreDNS')
  watches.push(
    ...['services', 'endpointslices'].map((resource) =>
      api.watch(resource, () => {
        // An error means that the machine is being stopped.
        timer ??= setTimeout(() => void refresh().catch(() => {}), settleMs)
      }),
    ),
  )
  return {
    exited,
    async stop() {
      stopped = true
      await endServer()
      end(0)
    },
  }
}

/** Cluster DNS. There is no Debian package of CoreDNS, so dnsmasq replaces it. */
export const coredns: BuiltinImage = {
  names: ['registry.k8s.io/coredns/coredns', 'registry.k8s.io/coredns', 'coredns/coredns'],
  tags: /^v1\.\d+\.\d+$/,
  about: 'cluster DNS, played by dnsmasq',
  start: startNameServer,
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
