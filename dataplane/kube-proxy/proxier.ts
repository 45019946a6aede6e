import { canonicalCidr, type Family, familyOf, isLoopbackAddress } from '../ip-address.ts'
import type { ClusterObjects } from '../objects.ts'
import type { KubeProxyConfig } from './config.ts'
import { trackEndpoints } from './endpoints.ts'
import { coversLoopback, nodeIP, nodePortAddresses } from './node-addresses.ts'
import type { LocalDetector } from './rule-text.ts'
import { serviceCIDRs, servicePorts } from './service-ports.ts'
import type { Features } from './versions.ts'

/** The input of one family's proxier. */
export type ProxierInput = ReturnType<typeof proxierOf>

/**
 * Above this number of endpoints of all Service ports, kube-proxy omits comments
 * (largeClusterEndpointsThreshold).
 */
const LARGE_CLUSTER = 1000

/** Collects the input of the proxier of one family on one node. */
export function proxierOf(
  objects: ClusterObjects,
  node: string,
  family: Family,
  features: Features,
  config: KubeProxyConfig,
  addresses: readonly string[],
) {
  const ofFamily = addresses.filter((address) => familyOf(address) === family)
  const self = objects.nodes.find((candidate) => candidate.name === node)
  const ports = servicePorts(
    objects,
    trackEndpoints(objects, node, family, features),
    family,
    features,
  )
  const known = self ? [...self.internalIPs, ...self.externalIPs] : addresses
  const ownIP = nodeIP(features, config, known, family)
  const nodePorts = nodePortAddresses(config, ofFamily, ownIP, family, features)
  return {
    node,
    family,
    features,
    config,
    /** The node IP in this family. */
    nodeIP: ownIP,
    zone: self?.labels['topology.kubernetes.io/zone'],
    detector: localDetector(config, self?.podCIDRs ?? [], family, features),
    /** The node's own addresses of this family without loopback. */
    nodeAddresses: ofFamily.filter((address) => !isLoopbackAddress(address)),
    nodePortAddresses: nodePorts,
    /**
     * Up to 1.25 node port rules are omitted if no local address matches; later they are written,
     * but no rule leads to them.
     */
    servesNodePorts: features.localhostNodePorts || nodePorts.all || nodePorts.addresses.length > 0,
    /** Node ports are also served on loopback. */
    localhostNodePorts:
      family === 'ipv4' && config.localhostNodePorts && coversLoopback(config.nodePortAddresses),
    ports,
    /** The Service address ranges of this family. */
    serviceCIDRs: serviceCIDRs(objects, family),
    /** Comments of balancing and endpoint rules are left out. */
    isLarge: ports.reduce((sum, port) => sum + port.endpoints.length, 0) > LARGE_CLUSTER,
  }
}

/**
 * The detector of one family, or undefined when kube-proxy has none (detectLocalMode without its
 * value): then rules do not distinguish local traffic. Only the first range of the family is used
 * (pkg/proxy/util/iptables/traffic.go).
 */
function localDetector(
  config: KubeProxyConfig,
  podCIDRs: readonly string[],
  family: Family,
  features: Features,
): LocalDetector | undefined {
  const mode = config.detectLocalMode
  if (mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix') {
    const device = mode === 'BridgeInterface' ? config.bridgeInterface : config.interfaceNamePrefix
    if (device === '' || !features.detectLocalByInterface) return undefined
    return { device: mode === 'BridgeInterface' ? device : `${device}+` }
  }
  const cidrs = mode === 'NodeCIDR' ? podCIDRs : config.clusterCIDR.split(',')
  const cidr = cidrs
    .map((part) => part.trim())
    .find((part) => part !== '' && familyOf(part) === family)
  return cidr === undefined ? undefined : { range: canonicalCidr(cidr) }
}
