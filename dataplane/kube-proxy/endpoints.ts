import { type Family, printEndpoint } from '../ip-address.ts'
import type { ClusterObjects, Endpoint, EndpointSlice } from '../objects.ts'
import type { Features } from './versions.ts'

/** One endpoint of one Service port, as kube-proxy tracks it. */
export interface TrackedEndpoint
  extends Pick<Endpoint, 'ready' | 'serving' | 'terminating' | 'zoneHints' | 'nodeHints'> {
  /**
   * `ip:port`, which determines chain names and order; before 1.31 with the IP as written in the
   * slice.
   */
  text: string
  ip: string
  port: number
  isLocal: boolean
}

/**
 * Endpoints by `namespace/name:port` + `/protocol` (see {@link endpointsKey}), each list in
 * kube-proxy's order.
 */
export type EndpointsByPort = Map<string, TrackedEndpoint[]>

/** The key of a Service port's endpoints: port name and protocol must both match. */
export const endpointsKey = (
  namespace: string,
  service: string,
  port: string,
  protocol: string,
): string => `${namespace}/${service}:${port}/${protocol}`

/** Objects with one of these labels belong to another proxy, or to a headless Service. */
export const isIgnored = (labels: Record<string, string>): boolean =>
  labels['service.kubernetes.io/service-proxy-name'] !== undefined ||
  labels['service.kubernetes.io/headless'] !== undefined

function addSlice(
  slice: EndpointSlice,
  node: string,
  features: Features,
  found: Map<string, TrackedEndpoint[]>,
): void {
  for (const { name, protocol, port } of slice.ports) {
    if (port === 0) continue
    const key = endpointsKey(slice.namespace, slice.serviceName, name, protocol)
    const list = found.get(key) ?? []
    for (const endpoint of slice.endpoints) {
      const tracked = trackEndpoint(endpoint, port, node, features)
      if (tracked) list.push(tracked)
    }
    if (list.length > 0) found.set(key, list)
  }
}

/** One endpoint for one port of its slice; undefined if this version of kube-proxy ignores it. */
function trackEndpoint(
  endpoint: Endpoint,
  port: number,
  node: string,
  features: Features,
): TrackedEndpoint | undefined {
  const { nodeName, ready, serving, terminating, zoneHints, nodeHints } = endpoint
  const ip = endpoint.addresses[0]
  if (ip === undefined || !(ready || features.keepsUnreadyEndpoints)) return undefined
  const isLocal = node !== '' && nodeName === node
  const writtenIP = features.canonicalEndpointIPs ? ip : (endpoint.spelling ?? ip)
  const text = printEndpoint(writtenIP, port)
  return { text, ip, port, isLocal, ready, serving, terminating, zoneHints, nodeHints }
}

/**
 * Merges duplicate endpoints; endpoints with the same IP are adjacent, in the order of the slices.
 */
function mergeSame(sorted: readonly TrackedEndpoint[], features: Features): TrackedEndpoint[] {
  const merged: TrackedEndpoint[] = []
  for (const endpoint of sorted) {
    const last = merged.at(-1)
    const same =
      last &&
      (features.endpointsMergeByPort ? last.text === endpoint.text : last.ip === endpoint.ip)
    const wins = features.mergedEndpoint === 'local' ? endpoint.isLocal : !endpoint.terminating
    if (!same) merged.push(endpoint)
    else if (wins) merged[merged.length - 1] = endpoint
  }
  return merged
}

/**
 * Collects the endpoints of all slices of one family by Service port, sorted by the bytes of
 * `ip:port` (so 10.244.1.10:80 comes before 10.244.1.1:80).
 */
export function trackEndpoints(
  objects: ClusterObjects,
  node: string,
  family: Family,
  features: Features,
): EndpointsByPort {
  const found = new Map<string, TrackedEndpoint[]>()
  for (const slice of objects.endpointSlices) {
    if (slice.serviceName === '' || isIgnored(slice.labels)) continue
    if (slice.addressType === 'FQDN' || slice.addressType.toLowerCase() !== family) continue
    addSlice(slice, node, features, found)
  }
  for (const [key, endpoints] of found) {
    endpoints.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
    found.set(key, mergeSame(endpoints, features))
  }
  return found
}
