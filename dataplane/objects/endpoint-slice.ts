import { acceptedFamily } from '../ip-address.ts'
import type { FieldReader, JsonObject } from './field-reader.ts'
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
function readNodeName(read: FieldReader, raw: JsonObject, field: string): string | undefined {
  const nodeName = read.text(raw.nodeName, `${field}.nodeName`)
  if (nodeName) return nodeName
  const topology = raw.topology ?? raw.deprecatedTopology
  return read.text(read.child(topology, `${field}.topology`)['kubernetes.io/hostname'], `${field}.topology`)
}

/** The names in one of the lists of `hints`. */
function readNames(read: FieldReader, list: unknown, field: string): string[] {
  return read.list(list, field).flatMap((item, index) => {
    const at = `${field}[${index}]`
    return read.text(read.child(item, at).name, `${at}.name`) || []
  })
}

function readEndpoint(read: FieldReader, item: unknown, field: string, addressType: string): Endpoint {
  const raw = read.child(item, field)
  const conditions = read.child(raw.conditions, `${field}.conditions`)
  const hints = read.child(raw.hints, `${field}.hints`)
  const ready = read.flag(conditions.ready, `${field}.conditions.ready`) ?? true
  const addresses: string[] = []
  for (const [index, value] of read.list(raw.addresses, `${field}.addresses`).entries()) {
    if (addressType === 'FQDN') continue
    const address = read.address(value, `${field}.addresses[${index}]`)
    if (address === undefined) continue
    if (acceptedFamily(address) !== addressType.toLowerCase())
      read.fault(`${field}.addresses[${index}]`, `"${address}" is not ${addressType}, as the slice's addressType says`)
    addresses.push(address)
  }
  const [first] = read.list(raw.addresses, `${field}.addresses`)
  const endpoint: Endpoint = {
    addresses,
    ready,
    serving: read.flag(conditions.serving, `${field}.conditions.serving`) ?? true,
    terminating: read.flag(conditions.terminating, `${field}.conditions.terminating`) ?? false,
    zoneHints: readNames(read, hints.forZones, `${field}.hints.forZones`),
    nodeHints: readNames(read, hints.forNodes, `${field}.hints.forNodes`),
  }
  const nodeName = readNodeName(read, raw, field)
  if (nodeName) endpoint.nodeName = nodeName
  if (typeof first === 'string' && addresses[0] !== undefined && first !== addresses[0]) endpoint.spelling = first
  return endpoint
}

/** Reads one EndpointSlice (discovery.k8s.io/v1 or v1beta1); faults go to the reader. */
export function readEndpointSlice(read: FieldReader, raw: JsonObject, namespace: string, name: string): EndpointSlice {
  const labels = read.labels(read.child(raw.metadata, 'metadata').labels, 'metadata.labels')
  const addressType = read.choice(raw.addressType, 'addressType', ['IPv4', 'IPv6', 'FQDN'], 'IPv4')
  return {
    namespace,
    name,
    labels,
    serviceName: labels['kubernetes.io/service-name'] ?? '',
    addressType,
    ports: read.list(raw.ports, 'ports').map((item, index) => {
      const port = read.child(item, `ports[${index}]`)
      return {
        name: read.name(port.name, `ports[${index}].name`, false),
        protocol: read.choice(port.protocol, `ports[${index}].protocol`, PROTOCOLS, 'TCP'),
        port: read.integer(port.port, `ports[${index}].port`, 0, 65535) ?? 0,
      }
    }),
    endpoints: read
      .list(raw.endpoints, 'endpoints')
      .map((item, index) => readEndpoint(read, item, `endpoints[${index}]`, addressType)),
  }
}
