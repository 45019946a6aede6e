import type { TrackedEndpoint } from './endpoints.ts'
import type { Proxier } from './proxier.ts'
import { isExternallyAccessible, type ServicePort } from './service-ports.ts'

/** The endpoints of a Service port on one node, by traffic policy. */
export interface EndpointCategories {
  /** For traffic policy Cluster; empty if the Service does not use it. */
  cluster: readonly TrackedEndpoint[]
  /** For traffic policy Local; empty if the Service does not use it. */
  local: readonly TrackedEndpoint[]
  /** Both without duplicates, in order: the endpoints that get a chain. */
  reachable: readonly TrackedEndpoint[]
  /** At least one endpoint on any node is usable. */
  any: boolean
  usesCluster: boolean
  usesLocal: boolean
}

const NONE: readonly TrackedEndpoint[] = []

// With publishNotReadyAddresses an endpoint can be ready while it terminates; kube-proxy treats it as ready.
const isReady = (endpoint: TrackedEndpoint): boolean => endpoint.ready
const isLeaving = (endpoint: TrackedEndpoint): boolean => endpoint.serving && endpoint.terminating

/** Hints apply if every ready endpoint has hints, and at least one of them is for this node or zone. */
function hinted(endpoints: readonly TrackedEndpoint[], kind: 'zoneHints' | 'nodeHints', here: string): boolean {
  let mine = false
  for (const endpoint of endpoints) {
    if (!isReady(endpoint)) continue
    if (endpoint[kind].length === 0) return false
    mine ||= endpoint[kind].includes(here)
  }
  return mine
}

/** Returns the predicate for endpoints whose topology hints allow this node: by node, by zone, or always true. */
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
 * The usable endpoints in 1.20 and 1.23, which have no categories: the ready ones, and with internalTrafficPolicy
 * Local (1.23, if the external policy is not also Local) only those of this node.
 */
export function readyEndpoints(port: ServicePort): readonly TrackedEndpoint[] {
  const ready = port.endpoints.every(isReady) ? port.endpoints : port.endpoints.filter(isReady)
  return port.internalLocal && !port.externalLocal ? ready.filter((endpoint) => endpoint.isLocal) : ready
}
