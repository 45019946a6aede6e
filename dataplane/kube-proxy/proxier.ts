import type { ClusterObjects } from '../objects.ts'
import type { KubeProxyConfig } from './config.ts'
import { trackEndpoints } from './endpoints.ts'
import { type Family, familyOf, isLoopback } from './ip.ts'
import { type LocalDetector, localDetector } from './local-detector.ts'
import { type NodePortAddresses, nodePortAddresses } from './node-port-addresses.ts'
import { type ServicePort, servicePorts } from './service-ports.ts'
import type { Features } from './versions.ts'

/** Everything that one family's proxier knows when it writes its rules. */
export interface Proxier {
  family: Family
  features: Features
  config: KubeProxyConfig
  /** The node's primary address in this family, if it has one. */
  nodeIP: string | undefined
  zone: string | undefined
  detector: LocalDetector | undefined
  /** The node's own addresses of this family without loopback. */
  nodeAddresses: string[]
  nodePortAddresses: NodePortAddresses
  ports: ServicePort[]
  /** More than 1000 endpoints: comments of balancing and endpoint rules are left out. */
  isLarge: boolean
}

/** Above this many endpoints over all Service ports kube-proxy saves on comments (largeClusterEndpointsThreshold). */
const LARGE_CLUSTER = 1000

/** Gathers what the proxier of one family on one node works from. */
export function proxierOf(
  objects: ClusterObjects,
  node: string,
  family: Family,
  features: Features,
  config: KubeProxyConfig,
  addresses: readonly string[],
): Proxier {
  const ofFamily = addresses.filter((address) => familyOf(address) === family)
  const self = objects.nodes.find((candidate) => candidate.name === node)
  const ports = servicePorts(objects, trackEndpoints(objects, node, family, features), family, features)
  const internalIP = (self?.internalIPs ?? addresses).find((address) => familyOf(address) === family)
  // With the gate on, 1.20 took the bind address itself for the node's address.
  const nodeIP = features.dualStack === 'gated' && config.dualStack ? config.bindAddress : internalIP
  return {
    family,
    features,
    config,
    nodeIP,
    zone: self?.labels['topology.kubernetes.io/zone'],
    detector: localDetector(config, self?.podCIDRs ?? [], family, features),
    nodeAddresses: ofFamily.filter((address) => !isLoopback(address)),
    nodePortAddresses: nodePortAddresses(config, ofFamily, internalIP, family, features),
    ports,
    isLarge: ports.reduce((sum, port) => sum + port.endpoints.length, 0) > LARGE_CLUSTER,
  }
}
