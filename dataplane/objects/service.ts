import { acceptedFamily } from '../ip-address.ts'
import type { FieldReader } from './field-reader.ts'

const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const
const POLICIES = ['Cluster', 'Local'] as const

/** A Service, with the API server's defaults filled in. */
export type Service = ReturnType<typeof readService>
export type ServicePortSpec = Service['ports'][number]

/** Reads one Service; faults go to the reader. */
export function readService(read: FieldReader, namespace: string, name: string) {
  const metadata = read.child('metadata')
  const spec = read.child('spec')
  const clientIP = spec.child('sessionAffinityConfig').child('clientIP')
  return {
    namespace,
    name,
    labels: metadata.labels('labels'),
    annotations: metadata.labels('annotations'),
    selector: spec.labels('selector'),
    type: spec.choice(
      'type',
      ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'],
      'ClusterIP',
    ),
    /** Empty for headless Services and ExternalName. */
    clusterIPs: readClusterIPs(spec),
    ports: readPorts(spec),
    sessionAffinity: spec.choice('sessionAffinity', ['None', 'ClientIP'], 'None'),
    /** Seconds. */
    sessionAffinityTimeout: clientIP.integer('timeoutSeconds', 1, 86400) ?? 10800,
    internalTrafficPolicy: spec.choice('internalTrafficPolicy', POLICIES, 'Cluster'),
    externalTrafficPolicy: spec.choice('externalTrafficPolicy', POLICIES, 'Cluster'),
    externalIPs: spec.addresses('externalIPs'),
    loadBalancerSourceRanges: spec.cidrs('loadBalancerSourceRanges'),
    loadBalancerIngress: read
      .child('status')
      .child('loadBalancer')
      .children('ingress')
      .map(readIngress),
    healthCheckNodePort: spec.integer('healthCheckNodePort', 0, 65535) ?? 0,
  }
}

function readClusterIPs(spec: FieldReader): string[] {
  if (spec.list('clusterIPs').length > 0) return spec.addresses('clusterIPs', 'None')
  return spec.raw.clusterIP === 'None' ? [] : [spec.address('clusterIP') ?? []].flat()
}

function readPorts(spec: FieldReader) {
  const names = new Set<string>()
  return spec.children('ports').map((port) => {
    const name = port.name('name', false)
    const isValid = name !== '' || !port.raw.name
    if (isValid && names.has(name)) port.fault('name', `"${name}" names two ports`)
    if (isValid) names.add(name)
    if (port.raw.port === undefined) port.fault('port', 'is missing')
    return {
      /** Empty for the unnamed port. */
      name,
      protocol: port.choice('protocol', PROTOCOLS, 'TCP'),
      port: port.integer('port', 1, 65535) ?? 0,
      /** 0 when the Service has none. */
      nodePort: port.integer('nodePort', 0, 65535) ?? 0,
    }
  })
}

function readIngress(item: FieldReader) {
  const ip = item.address('ip')
  const hostname = item.text('hostname')
  /** With `Proxy`, kube-proxy does not program the address (Kubernetes 1.30). */
  const ipMode = item.choice('ipMode', ['VIP', 'Proxy'], undefined)
  return { ...(ip && { ip }), ...(hostname && { hostname }), ...(ipMode && { ipMode }) }
}

export type EndpointSlice = ReturnType<typeof readEndpointSlice>
export type Endpoint = EndpointSlice['endpoints'][number]

/** Reads one EndpointSlice (discovery.k8s.io/v1 or v1beta1); faults go to the reader. */
export function readEndpointSlice(read: FieldReader, namespace: string, name: string) {
  const labels = read.child('metadata').labels('labels')
  const addressType = read.choice('addressType', ['IPv4', 'IPv6', 'FQDN'], 'IPv4')
  return {
    namespace,
    name,
    labels,
    /** Empty when the label is missing. */
    serviceName: labels['kubernetes.io/service-name'] ?? '',
    addressType,
    ports: read.children('ports').map((port) => ({
      name: port.name('name', false),
      protocol: port.choice('protocol', PROTOCOLS, 'TCP'),
      /** 0 if the slice omits it; kube-proxy ignores such a port. */
      port: port.integer('port', 0, 65535) ?? 0,
    })),
    endpoints: read.children('endpoints').map((endpoint) => readEndpoint(endpoint, addressType)),
  }
}

/** Most endpoints have none: one list for all of them. */
const NO_HINTS: readonly string[] = []

function readEndpoint(read: FieldReader, addressType: string) {
  const conditions = read.child('conditions')
  const hints = read.child('hints')
  const namesIn = (list: string): readonly string[] => {
    const items = hints.children(list)
    return items.length === 0 ? NO_HINTS : items.flatMap((item) => item.text('name') || [])
  }
  const addresses = addressType === 'FQDN' ? [] : read.addresses('addresses')
  const other = addresses.findIndex(
    (address) => acceptedFamily(address) !== addressType.toLowerCase(),
  )
  if (other >= 0)
    read.fault(
      `addresses[${other}]`,
      `"${addresses[other]}" is not ${addressType}, as the slice's addressType says`,
    )
  const [first] = Array.isArray(read.raw.addresses) ? read.raw.addresses : []
  const isRespelled =
    typeof first === 'string' && addresses[0] !== undefined && first !== addresses[0]
  const nodeName = readNodeName(read)
  return {
    addresses,
    /** A missing `ready` counts as true (discovery.k8s.io: "unknown" is to be read as ready). */
    ready: conditions.flag('ready') ?? true,
    serving: conditions.flag('serving') ?? true,
    terminating: conditions.flag('terminating') ?? false,
    zoneHints: namesIn('forZones'),
    nodeHints: namesIn('forNodes'),
    // Not spread, which takes V8 longer than all other fields.
    nodeName: nodeName || undefined,
    /** The first address as written in the slice, if that is not its canonical form. */
    spelling: isRespelled ? first : undefined,
  }
}

/** In v1beta1, before `nodeName` existed, a topology label contained the node. */
function readNodeName(endpoint: FieldReader): string | undefined {
  const nodeName = endpoint.text('nodeName')
  if (nodeName) return nodeName
  const topology = endpoint.child(endpoint.raw.topology == null ? 'deprecatedTopology' : 'topology')
  return topology.text('kubernetes.io/hostname')
}
