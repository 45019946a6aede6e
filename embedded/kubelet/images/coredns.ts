import type { Api } from '../../apiserver/api.ts'
import type { EndpointSliceObject, ServiceObject } from '../../controllers/resources.ts'
import type { BuiltinContainer, BuiltinContext, BuiltinImage } from './registry.ts'

const settings =
  `--keep-in-foreground --port=53 --user=root --group=root --pid-file --log-facility=- --no-resolv --no-hosts
--local=/cluster.local/ --local=/in-addr.arpa/ --local-ttl=30 --cache-size=0 --bind-dynamic`.split(
    /\s/,
  )

// Changes of Endpoints occur in bursts.
const settleMs = 50

/**
 * Runs dnsmasq in one Pod, with all names of Services in a file that it reads again after a change.
 */
async function startNameServer(context: BuiltinContext): Promise<BuiltinContainer> {
  const { api, machine, placement, pod, log, stderr } = context
  const path = `/run/pods/${pod.metadata.uid}/dns-hosts`
  let hosts = serviceNames(api)
  await machine.write([{ path, content: hosts }])
  const server = await machine.spawn(['dnsmasq', ...settings, `--addn-hosts=${path}`], placement, {
    noInput: true,
  })
  server.stdout.resume()
  const serving = new Promise<void>((resolve) =>
    server.stderr.on('data', (bytes: Buffer) => {
      for (const line of bytes.toString().trimEnd().split('\n')) stderr(line)
      if (bytes.includes('read ') || bytes.includes('started')) resolve()
    }),
  )
  await Promise.race([serving, server.exited])
  log('.:53')
  log('dnsmasq replaces CoreDNS')
  let timer: NodeJS.Timeout | undefined
  const refresh = async () => {
    timer = undefined
    const before = hosts
    hosts = serviceNames(api)
    if (hosts === before) return
    await machine.write([{ path, content: hosts }])
    server.kill('SIGHUP')
  }
  const ends = ['services', 'endpointslices'].map((resource) =>
    api.watch(resource, () => {
      // An error means that the machine is being stopped.
      timer ??= setTimeout(() => void refresh().catch(() => {}), settleMs)
    }),
  )
  const exited = server.exited.then(({ exitCode }) => {
    clearTimeout(timer)
    for (const end of ends) end()
    return exitCode
  })
  return {
    exited,
    async stop() {
      server.kill('SIGTERM')
      await exited
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

/**
 * A hosts file with the names of all Services by the Kubernetes DNS specification 1.1 (A and PTR
 * records).
 */
function serviceNames(api: Api): string {
  const lines: string[] = []
  const slices = api.list<EndpointSliceObject>('endpointslices')
  for (const { metadata, spec } of api.list<ServiceObject>('services')) {
    const name = `${metadata.name}.${metadata.namespace}.svc.cluster.local`
    if (spec.clusterIP !== 'None') {
      if (spec.clusterIP) lines.push(`${spec.clusterIP} ${name}`)
      continue
    }
    const own = slices.filter(
      (slice) =>
        slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name &&
        slice.metadata.namespace === metadata.namespace &&
        slice.addressType === 'IPv4',
    )
    for (const endpoint of own.flatMap(({ endpoints }) => endpoints ?? []))
      lines.push(...endpointNames(endpoint, name, spec.publishNotReadyAddresses === true))
  }
  return lines.map((line) => `${line}\n`).join('')
}

/** The names of one endpoint of a headless Service. */
function endpointNames(
  { addresses, hostname, conditions }: NonNullable<EndpointSliceObject['endpoints']>[number],
  service: string,
  publishNotReady: boolean,
): string[] {
  const [address] = addresses
  if (!address || (conditions?.ready === false && !publishNotReady)) return []
  // The first name of a line is the one a PTR query gets.
  return [
    `${address} ${hostname ?? address.replaceAll('.', '-')}.${service}`,
    `${address} ${service}`,
  ]
}
