import type { Api } from '../apiserver/api.ts'
import type { EndpointSlice, Service } from '../controllers/resources.ts'

/** Cluster DNS as dnsmasq takes it. */
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
export function dnsZone(api: Api): DnsZone {
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
