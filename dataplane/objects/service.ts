import type { FieldReader, JsonObject } from './field-reader.ts'

export type Protocol = 'TCP' | 'UDP' | 'SCTP'
export const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP']

export interface ServicePortSpec {
  /** Empty for the unnamed port. */
  name: string
  protocol: Protocol
  port: number
  /** 0 when the Service has none. */
  nodePort: number
}

export interface LoadBalancerIngress {
  ip?: string
  hostname?: string
  /** With `Proxy`, kube-proxy does not program the address (Kubernetes 1.30). */
  ipMode?: 'VIP' | 'Proxy'
}

/** A Service, with the API server's defaults filled in. */
export interface Service {
  namespace: string
  name: string
  labels: Record<string, string>
  annotations: Record<string, string>
  selector: Record<string, string>
  type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  /** Empty for headless Services and ExternalName. */
  clusterIPs: string[]
  ports: ServicePortSpec[]
  sessionAffinity: 'None' | 'ClientIP'
  /** Seconds; 10800 by default. */
  sessionAffinityTimeout: number
  internalTrafficPolicy: 'Cluster' | 'Local'
  externalTrafficPolicy: 'Cluster' | 'Local'
  externalIPs: string[]
  loadBalancerSourceRanges: string[]
  loadBalancerIngress: LoadBalancerIngress[]
  healthCheckNodePort: number
}

function readPorts(read: FieldReader, value: unknown): ServicePortSpec[] {
  const ports: ServicePortSpec[] = []
  const names = new Set<string>()
  for (const [index, item] of read.list(value, 'spec.ports').entries()) {
    const field = `spec.ports[${index}]`
    const raw = read.child(item, field)
    const name = read.name(raw.name, `${field}.name`, false)
    const protocol = read.choice(raw.protocol, `${field}.protocol`, PROTOCOLS, 'TCP')
    const isNamed = name !== '' || !raw.name
    if (isNamed && names.has(name)) read.fault(`${field}.name`, `"${name}" names two ports`)
    if (isNamed) names.add(name)
    const port = read.integer(raw.port, `${field}.port`, 1, 65535)
    if (raw.port === undefined) read.fault(`${field}.port`, 'is missing')
    const nodePort = read.integer(raw.nodePort, `${field}.nodePort`, 0, 65535) ?? 0
    ports.push({ name, protocol, port: port ?? 0, nodePort })
  }
  return ports
}

function readClusterIPs(read: FieldReader, spec: JsonObject): string[] {
  const addresses: string[] = []
  const list = read.list(spec.clusterIPs, 'spec.clusterIPs')
  const single = spec.clusterIP
  const given = list.length > 0 ? list : single === undefined || single === null ? [] : [single]
  const field = list.length > 0 ? 'spec.clusterIPs' : 'spec.clusterIP'
  for (const value of given) {
    if (value === 'None' || value === '') continue
    const address = read.address(value, field)
    if (address) addresses.push(address)
  }
  return addresses
}

function readIngress(read: FieldReader, status: JsonObject): LoadBalancerIngress[] {
  const balancer = read.child(status.loadBalancer, 'status.loadBalancer')
  return read.list(balancer.ingress, 'status.loadBalancer.ingress').map((item, index) => {
    const field = `status.loadBalancer.ingress[${index}]`
    const raw = read.child(item, field)
    const ingress: LoadBalancerIngress = {}
    if (raw.ip !== undefined && raw.ip !== '') {
      const ip = read.address(raw.ip, `${field}.ip`)
      if (ip) ingress.ip = ip
    }
    const hostname = read.text(raw.hostname, `${field}.hostname`)
    if (hostname) ingress.hostname = hostname
    if (raw.ipMode !== undefined && raw.ipMode !== null)
      ingress.ipMode = read.choice(raw.ipMode, `${field}.ipMode`, ['VIP', 'Proxy'], 'VIP')
    return ingress
  })
}

/** Reads one Service; faults go to the reader. */
export function readService(read: FieldReader, raw: JsonObject, namespace: string, name: string): Service {
  const metadata = read.child(raw.metadata, 'metadata')
  const spec = read.child(raw.spec, 'spec')
  const status = read.child(raw.status, 'status')
  const affinity = read.child(spec.sessionAffinityConfig, 'spec.sessionAffinityConfig')
  const clientIP = read.child(affinity.clientIP, 'spec.sessionAffinityConfig.clientIP')
  const addresses = (value: unknown, field: string) =>
    read.list(value, field).flatMap((item, index) => read.address(item, `${field}[${index}]`) ?? [])
  return {
    namespace,
    name,
    labels: read.labels(metadata.labels, 'metadata.labels'),
    annotations: read.labels(metadata.annotations, 'metadata.annotations'),
    selector: read.labels(spec.selector, 'spec.selector'),
    type: read.choice(spec.type, 'spec.type', ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'], 'ClusterIP'),
    clusterIPs: readClusterIPs(read, spec),
    ports: readPorts(read, spec.ports),
    sessionAffinity: read.choice(spec.sessionAffinity, 'spec.sessionAffinity', ['None', 'ClientIP'], 'None'),
    sessionAffinityTimeout:
      read.integer(clientIP.timeoutSeconds, 'spec.sessionAffinityConfig.clientIP.timeoutSeconds', 1, 86400) ?? 10800,
    internalTrafficPolicy: read.choice(
      spec.internalTrafficPolicy,
      'spec.internalTrafficPolicy',
      ['Cluster', 'Local'],
      'Cluster',
    ),
    externalTrafficPolicy: read.choice(
      spec.externalTrafficPolicy,
      'spec.externalTrafficPolicy',
      ['Cluster', 'Local'],
      'Cluster',
    ),
    externalIPs: addresses(spec.externalIPs, 'spec.externalIPs'),
    loadBalancerSourceRanges: read
      .list(spec.loadBalancerSourceRanges, 'spec.loadBalancerSourceRanges')
      .flatMap((item, index) => read.cidr(item, `spec.loadBalancerSourceRanges[${index}]`) ?? []),
    loadBalancerIngress: readIngress(read, status),
    healthCheckNodePort: read.integer(spec.healthCheckNodePort, 'spec.healthCheckNodePort', 0, 65535) ?? 0,
  }
}
