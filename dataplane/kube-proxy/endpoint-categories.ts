import type { TrackedEndpoint } from './endpoints.ts'
import type { Proxier } from './proxier.ts'
import { isExternallyAccessible, type ServicePort } from './service-ports.ts'

/** Which endpoints serve which traffic policy on one node. */
export interface EndpointCategories {
  /** For traffic policy Cluster; empty when nothing of the Service uses it. */
  cluster: readonly TrackedEndpoint[]
  /** For traffic policy Local; empty when nothing of the Service uses it. */
  local: readonly TrackedEndpoint[]
  /** Both without duplicates, in order: the endpoints that need a chain of their own. */
  reachable: readonly TrackedEndpoint[]
  /** Some endpoint somewhere can be used. */
  any: boolean
  usesCluster: boolean
  usesLocal: boolean
}

const NONE: readonly TrackedEndpoint[] = []

// Ready while terminating happens with publishNotReadyAddresses, and kube-proxy then takes it as ready.
const isReady = (endpoint: TrackedEndpoint): boolean => endpoint.ready
const isLeaving = (endpoint: TrackedEndpoint): boolean => endpoint.serving && endpoint.terminating

/** Hints of one kind hold when every ready endpoint has some and at least one is meant for here. */
function hinted(endpoints: readonly TrackedEndpoint[], kind: 'zoneHints' | 'nodeHints', here: string): boolean {
  let mine = false
  for (const endpoint of endpoints) {
    if (!isReady(endpoint)) continue
    if (endpoint[kind].length === 0) return false
    mine ||= endpoint[kind].includes(here)
  }
  return mine
}

/** What an endpoint must be meant for to be used on this node: the node itself, its zone, or nothing. */
function topology(port: ServicePort, { features, node, zone }: Surroundings): (endpoint: TrackedEndpoint) => boolean {
  if (features.nodeHints && hinted(port.endpoints, 'nodeHints', node))
    return (endpoint) => endpoint.nodeHints.includes(node)
  if (port.followsHints && zone !== undefined && zone !== '' && hinted(port.endpoints, 'zoneHints', zone))
    return (endpoint) => endpoint.zoneHints.includes(zone)
  return () => true
}

type Surroundings = Pick<Proxier, 'features' | 'node' | 'zone'>

/**
 * Sorts the endpoints of a Service port by traffic policy, as kube-proxy's CategorizeEndpoints does from 1.24 on
 * (KEP-1669 for terminating endpoints, KEP-2433 and KEP-3015 for hints).
 */
export function categorizeEndpoints(port: ServicePort, around: Surroundings): EndpointCategories {
  const external = isExternallyAccessible(port)
  const usesCluster = !port.internalLocal || external
  const usesLocal = port.internalLocal || (port.externalLocal && external)
  const { endpoints } = port
  const leaving = around.features.terminatingEndpoints ? isLeaving : () => false

  let cluster = NONE
  if (usesCluster) {
    const isMeant = topology(port, around)
    const isUsable = (endpoint: TrackedEndpoint) => isReady(endpoint) && isMeant(endpoint)
    cluster = endpoints.every(isUsable) ? endpoints : endpoints.filter(isUsable)
    if (cluster.length === 0) cluster = endpoints.filter(leaving)
  }
  if (!usesLocal) return { cluster, local: NONE, reachable: cluster, any: cluster.length > 0, usesCluster, usesLocal }

  const any = cluster.length > 0 || endpoints.some((endpoint) => isReady(endpoint) || leaving(endpoint))
  const here = endpoints.filter((endpoint) => endpoint.isLocal)
  let local: readonly TrackedEndpoint[] = here.filter(isReady)
  if (local.length === 0) local = here.filter(leaving)
  if (!usesCluster) return { cluster, local, reachable: local, any, usesCluster, usesLocal }
  const wanted = new Set([...cluster, ...local])
  const reachable = wanted.size === cluster.length ? cluster : endpoints.filter((endpoint) => wanted.has(endpoint))
  return { cluster, local, reachable, any, usesCluster, usesLocal }
}

/**
 * The endpoints that count in 1.20 and 1.23, before categories: the ready ones, and with internalTrafficPolicy Local
 * (1.23, unless the external policy is Local too) only those of this node.
 */
export function readyEndpoints(port: ServicePort): readonly TrackedEndpoint[] {
  const ready = port.endpoints.every(isReady) ? port.endpoints : port.endpoints.filter(isReady)
  return port.internalLocal && !port.externalLocal ? ready.filter((endpoint) => endpoint.isLocal) : ready
}
