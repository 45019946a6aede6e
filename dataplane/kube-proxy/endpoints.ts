import type { ClusterObjects, EndpointSlice } from '../objects.ts'
import { canonicalAddress, type Family, familyOf, joinHostPort } from './ip.ts'
import type { Features } from './versions.ts'

/** One endpoint of one Service port, as kube-proxy tracks it. */
export interface TrackedEndpoint {
  /** `ip:port` as the slice wrote the IP: what chain names are made of and the order goes by. */
  text: string
  ip: string
  port: number
  isLocal: boolean
  ready: boolean
  serving: boolean
  terminating: boolean
  zoneHints: string[]
}

/** Endpoints by `namespace/name:port` + `/protocol` (see {@link endpointsKey}), each list in kube-proxy's order. */
export type EndpointsByPort = Map<string, TrackedEndpoint[]>

/** The key under which a Service port finds its endpoints: port name and protocol must both match. */
export const endpointsKey = (namespace: string, service: string, port: string, protocol: string): string =>
  `${namespace}/${service}:${port}/${protocol}`

/** Objects with one of these labels are some other proxy's, or headless. */
export const isIgnored = (labels: Record<string, string>): boolean =>
  labels['service.kubernetes.io/service-proxy-name'] !== undefined ||
  labels['service.kubernetes.io/headless'] !== undefined

function addSlice(
  slice: EndpointSlice,
  node: string,
  features: Features,
  found: Map<string, Map<string, TrackedEndpoint>>,
) {
  for (const port of slice.ports) {
    if (port.port === 0) continue
    const key = endpointsKey(slice.namespace, slice.serviceName, port.name, port.protocol)
    let byAddress = found.get(key)
    for (const endpoint of slice.endpoints) {
      const address = endpoint.addresses[0]
      if (address === undefined) continue
      if (!features.keepsUnreadyEndpoints && !endpoint.ready) continue
      if (!byAddress) {
        byAddress = new Map()
        found.set(key, byAddress)
      }
      const text = joinHostPort(address, port.port)
      const identity = features.endpointsMergeByPort ? text : address
      const isLocal = node !== '' && endpoint.nodeName === node
      if (byAddress.has(identity) && !isLocal) continue
      byAddress.set(identity, {
        text,
        ip: canonicalAddress(address),
        port: port.port,
        isLocal,
        ready: endpoint.ready,
        serving: endpoint.serving,
        terminating: endpoint.terminating,
        zoneHints: endpoint.zoneHints,
      })
    }
  }
}

/**
 * Gathers the endpoints of all slices of one family, per Service port, ordered by the bytes of `ip:port`
 * (so 10.244.1.10:80 comes before 10.244.1.1:80).
 */
export function trackEndpoints(
  objects: ClusterObjects,
  node: string,
  family: Family,
  features: Features,
): EndpointsByPort {
  const found = new Map<string, Map<string, TrackedEndpoint>>()
  for (const slice of objects.endpointSlices) {
    if (slice.serviceName === '' || isIgnored(slice.labels)) continue
    if (slice.addressType === 'FQDN' || slice.addressType.toLowerCase() !== family) continue
    addSlice(slice, node, features, found)
  }
  const sorted: EndpointsByPort = new Map()
  for (const [key, byAddress] of found) {
    const endpoints = [...byAddress.values()].filter((endpoint) => familyOf(endpoint.ip) === family)
    endpoints.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
    if (endpoints.length > 0) sorted.set(key, endpoints)
  }
  return sorted
}
