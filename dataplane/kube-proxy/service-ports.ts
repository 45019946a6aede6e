import { canonicalCidr, type Family, familyOf, isZeroCidr } from '../ip-address.ts'
import type { ClusterObjects, Service } from '../objects.ts'
import { serviceHash } from './chain-names.ts'
import { type EndpointsByPort, endpointsKey, isIgnored, type TrackedEndpoint } from './endpoints.ts'
import type { Features } from './versions.ts'

/** One port of one Service in one family: the unit kube-proxy programs. */
export type ServicePort = ReturnType<typeof portsOf>[number]

/** Whether the port is reachable by an address other than the ClusterIP. */
export const isExternallyAccessible = (port: ServicePort): boolean =>
  port.nodePort !== 0 || port.loadBalancerIPs.length > 0 || port.externalIPs.length > 0

const NONE: readonly TrackedEndpoint[] = []

function isExternalLocal(service: Service, features: Features): boolean {
  if (service.externalTrafficPolicy !== 'Local') return false
  if (service.type === 'NodePort' || service.type === 'LoadBalancer') return true
  return (
    features.localPolicyForExternalIPs &&
    service.type === 'ClusterIP' &&
    service.externalIPs.length > 0
  )
}

/** The older annotation has precedence over the newer one, which exists since 1.27. */
function followsHints({ annotations }: Service, { zoneHints }: Features): boolean {
  if (zoneHints === 'none' || zoneHints === 'always') return zoneHints === 'always'
  const annotation = annotations['service.kubernetes.io/topology-aware-hints']
  if (zoneHints === 'auto') return annotation === 'Auto' || annotation === 'auto'
  return !['', 'Disabled', 'disabled'].includes(
    annotation ?? annotations['service.kubernetes.io/topology-mode'] ?? '',
  )
}

/**
 * The Service ports that kube-proxy programs in one family, in the order of the objects. Headless
 * Services, ExternalName and those labelled for another proxy are left out (pkg/proxy/util
 * ShouldSkipService).
 */
export const servicePorts = (
  objects: ClusterObjects,
  endpoints: EndpointsByPort,
  family: Family,
  features: Features,
): ServicePort[] =>
  objects.services.flatMap((service) => {
    if (service.type === 'ExternalName' || isIgnored(service.labels)) return []
    const clusterIP = service.clusterIPs.find((address) => familyOf(address) === family)
    return clusterIP === undefined ? [] : portsOf(service, clusterIP, endpoints, family, features)
  })

function portsOf(
  service: Service,
  clusterIP: string,
  endpoints: EndpointsByPort,
  family: Family,
  features: Features,
) {
  const path = `${service.namespace}/${service.name}`
  const ofFamily = (addresses: readonly string[]) =>
    addresses.filter((address) => familyOf(address) === family)
  const externalLocal = isExternalLocal(service, features)
  const ranges = ofFamily(service.loadBalancerSourceRanges).map(canonicalCidr)
  const externalIPs = ofFamily(service.externalIPs)
  const loadBalancerIPs = ofFamily(
    service.loadBalancerIngress.flatMap(({ ip, ipMode }) =>
      ip === undefined || (features.ingressIPMode && ipMode === 'Proxy') ? [] : [ip],
    ),
  )
  return service.ports.map(({ name: portName, protocol: protocolName, port, nodePort }) => {
    const name = portName === '' ? path : `${path}:${portName}`
    const protocol = PROTOCOLS[protocolName]
    const key = endpointsKey(service.namespace, service.name, portName, protocolName)
    // Without a spread: fields that are added to a copied object take V8 a tenth of the
    // prediction's time.
    return {
      /** `namespace/name:port`, or `namespace/name` for the unnamed port. */
      name,
      protocol,
      /** The suffix of its chain names. */
      hash: serviceHash(name, protocol),
      clusterIP,
      externalIPs,
      loadBalancerIPs,
      port,
      nodePort,
      endpoints: endpoints.get(key) ?? NONE,
      sourceRanges: features.zeroRangeAllowsAll && ranges.some(isZeroCidr) ? [] : ranges,
      /** Seconds of ClientIP affinity. */
      affinity: service.sessionAffinity === 'ClientIP' ? service.sessionAffinityTimeout : undefined,
      internalLocal:
        features.internalTrafficPolicy !== 'ignored' && service.internalTrafficPolicy === 'Local',
      externalLocal,
      healthCheckNodePort:
        service.type === 'LoadBalancer' && externalLocal ? service.healthCheckNodePort : 0,
      /** Topology hints of the endpoints are followed. */
      followsHints: followsHints(service, features),
    }
  })
}

/** As rules write them. */
const PROTOCOLS = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const

/**
 * The usual size of a Service range: kind's and k3s's /16, and the /112 of IPv6 examples. kubeadm's
 * own default is a /12.
 */
const USUAL_LENGTH: Record<Family, number> = { ipv4: 16, ipv6: 112 }

/**
 * The Service address ranges of one family, from the ServiceCIDR objects (networking.k8s.io/v1). If
 * there are none, the range of the usual size that contains the address of Service
 * default/kubernetes, which is always the first of its range.
 */
export function serviceCIDRs(objects: ClusterObjects, family: Family): string[] {
  const ofFamily = (texts: readonly string[]) => texts.filter((text) => familyOf(text) === family)
  if (objects.serviceCIDRs.length > 0)
    return [...new Set(ofFamily(objects.serviceCIDRs).map(canonicalCidr))].sort()
  const kubernetes = objects.services.find(
    ({ namespace, name }) => namespace === 'default' && name === 'kubernetes',
  )
  return ofFamily(kubernetes?.clusterIPs ?? []).map((address) =>
    canonicalCidr(`${address}/${USUAL_LENGTH[family]}`),
  )
}

/** The endpoints of a Service port on one node, by traffic policy. */
export type EndpointCategories = ReturnType<typeof categorizeEndpoints>

// With publishNotReadyAddresses an endpoint can be ready while it terminates; kube-proxy treats it
// as ready.
const isEndpointReady = (endpoint: TrackedEndpoint): boolean => endpoint.ready
const isLeaving = (endpoint: TrackedEndpoint): boolean => endpoint.serving && endpoint.terminating

/**
 * Hints apply if every ready endpoint has hints, and at least one of them is for this node or zone.
 */
function hinted(
  endpoints: readonly TrackedEndpoint[],
  kind: 'zoneHints' | 'nodeHints',
  here: string,
): boolean {
  let mine = false
  for (const endpoint of endpoints) {
    if (!isEndpointReady(endpoint)) continue
    if (endpoint[kind].length === 0) return false
    mine ||= endpoint[kind].includes(here)
  }
  return mine
}

function topology(
  port: ServicePort,
  { features, node, zone }: CategoryContext,
): (endpoint: TrackedEndpoint) => boolean {
  if (features.nodeHints && hinted(port.endpoints, 'nodeHints', node))
    return (endpoint) => endpoint.nodeHints.includes(node)
  if (
    port.followsHints &&
    zone !== undefined &&
    zone !== '' &&
    hinted(port.endpoints, 'zoneHints', zone)
  )
    return (endpoint) => endpoint.zoneHints.includes(zone)
  return () => true
}

/**
 * What the categories depend on besides the port: kube-proxy's version, and the node with its zone.
 */
interface CategoryContext {
  features: Features
  node: string
  zone: string | undefined
}

/** The ready endpoints on this node; if there are none, those that are leaving. */
function localEndpoints(
  endpoints: readonly TrackedEndpoint[],
  leaving: (endpoint: TrackedEndpoint) => boolean,
): readonly TrackedEndpoint[] {
  const here = endpoints.filter((endpoint) => endpoint.isLocal)
  const ready = here.filter(isEndpointReady)
  return ready.length > 0 ? ready : here.filter(leaving)
}

/**
 * Sorts the endpoints of a Service port by traffic policy, as kube-proxy's CategorizeEndpoints does
 * from 1.24 on (KEP-1669 for terminating endpoints, KEP-2433 and KEP-3015 for hints).
 */
export function categorizeEndpoints(port: ServicePort, around: CategoryContext) {
  const external = isExternallyAccessible(port)
  const usesCluster = !port.internalLocal || external
  const usesLocal = port.internalLocal || (port.externalLocal && external)
  const { endpoints } = port
  const leaving = around.features.terminatingEndpoints ? isLeaving : () => false

  let cluster = NONE
  if (usesCluster) {
    const isMeant = topology(port, around)
    const isUsable = (endpoint: TrackedEndpoint) => isEndpointReady(endpoint) && isMeant(endpoint)
    cluster = endpoints.every(isUsable) ? endpoints : endpoints.filter(isUsable)
    if (cluster.length === 0) cluster = endpoints.filter(leaving)
  }
  const local = usesLocal ? localEndpoints(endpoints, leaving) : NONE
  const wanted = local.length === 0 ? undefined : new Set([...cluster, ...local])
  return {
    usesCluster,
    usesLocal,
    /** For traffic policy Cluster; empty if the Service does not use it. */
    cluster,
    /** For traffic policy Local; empty if the Service does not use it. */
    local,
    /** Both without duplicates, in order: the endpoints that get a chain. */
    reachable:
      wanted === undefined || wanted.size === cluster.length
        ? cluster
        : endpoints.filter((endpoint) => wanted.has(endpoint)),
    /** At least one endpoint on any node is usable. */
    any:
      cluster.length > 0 ||
      (usesLocal && endpoints.some((endpoint) => isEndpointReady(endpoint) || leaving(endpoint))),
  }
}

/**
 * The usable endpoints in 1.20 and 1.23, which have no categories: the ready ones, and with
 * internalTrafficPolicy Local (1.23, if the external policy is not also Local) only those of this
 * node.
 */
export function readyEndpoints(port: ServicePort): readonly TrackedEndpoint[] {
  const ready = port.endpoints.every(isEndpointReady)
    ? port.endpoints
    : port.endpoints.filter(isEndpointReady)
  return port.internalLocal && !port.externalLocal
    ? ready.filter((endpoint) => endpoint.isLocal)
    : ready
}
