import { acceptedFamily } from '../ip-address.ts'
import type { FieldReader } from './field-reader.ts'
import { PROTOCOLS, type Protocol } from './service.ts'

export interface EndpointPort {
  name: string
  protocol: Protocol
  /** 0 if the slice omits it; kube-proxy ignores such a port. */
  port: number
}

export interface Endpoint {
  addresses: string[]
  /** The first address as written in the slice, if that is not its canonical form. */
  spelling?: string
  nodeName?: string
  /** A missing `ready` counts as true (discovery.k8s.io: "unknown" is to be read as ready). */
  ready: boolean
  serving: boolean
  terminating: boolean
  /** Zones of `hints.forZones`. */
  zoneHints: string[]
  /** Nodes of `hints.forNodes`. */
  nodeHints: string[]
}

export interface EndpointSlice {
  namespace: string
  name: string
  labels: Record<string, string>
  /** From the label `kubernetes.io/service-name`; empty when it is missing. */
  serviceName: string
  addressType: 'IPv4' | 'IPv6' | 'FQDN'
  ports: EndpointPort[]
  endpoints: Endpoint[]
}

/** In v1beta1, before `nodeName` existed, a topology label contained the node. */
function readNodeName(endpoint: FieldReader): string | undefined {
  const nodeName = endpoint.text('nodeName')
  if (nodeName) return nodeName
  const topology = endpoint.child(endpoint.raw.topology == null ? 'deprecatedTopology' : 'topology')
  return topology.text('kubernetes.io/hostname')
}

function readEndpoint(read: FieldReader, addressType: string): Endpoint {
  const conditions = read.child('conditions')
  const hints = read.child('hints')
  const namesIn = (list: string) => hints.children(list).flatMap((item) => item.text('name') || [])
  const addresses = addressType === 'FQDN' ? [] : read.addresses('addresses')
  const other = addresses.findIndex((address) => acceptedFamily(address) !== addressType.toLowerCase())
  if (other >= 0)
    read.fault(`addresses[${other}]`, `"${addresses[other]}" is not ${addressType}, as the slice's addressType says`)
  const [first] = Array.isArray(read.raw.addresses) ? read.raw.addresses : []
  const nodeName = readNodeName(read)
  return {
    addresses,
    ready: conditions.flag('ready') ?? true,
    serving: conditions.flag('serving') ?? true,
    terminating: conditions.flag('terminating') ?? false,
    zoneHints: namesIn('forZones'),
    nodeHints: namesIn('forNodes'),
    ...(nodeName ? { nodeName } : {}),
    ...(typeof first === 'string' && addresses[0] !== undefined && first !== addresses[0] ? { spelling: first } : {}),
  }
}

/** Reads one EndpointSlice (discovery.k8s.io/v1 or v1beta1); faults go to the reader. */
export function readEndpointSlice(read: FieldReader, namespace: string, name: string): EndpointSlice {
  const labels = read.child('metadata').labels('labels')
  const addressType = read.choice('addressType', ['IPv4', 'IPv6', 'FQDN'], 'IPv4')
  return {
    namespace,
    name,
    labels,
    serviceName: labels['kubernetes.io/service-name'] ?? '',
    addressType,
    ports: read.children('ports').map((port) => ({
      name: port.name('name', false),
      protocol: port.choice('protocol', PROTOCOLS, 'TCP'),
      port: port.integer('port', 0, 65535) ?? 0,
    })),
    endpoints: read.children('endpoints').map((endpoint) => readEndpoint(endpoint, addressType)),
  }
}
