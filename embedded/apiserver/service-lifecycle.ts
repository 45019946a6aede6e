import { isIP } from 'node:net'
import type { V1Service } from '@kubernetes/client-node'
import { sameJson } from './json.ts'
import { needsClusterIP, needsHealthCheckPort, needsNodePorts } from './service-allocator.ts'

/** Settles clusterIP, clusterIPs and the IP families of a new Service; this cluster is IPv4 only. */
export function prepareService(service: V1Service): void {
  const spec = service.spec
  if (!spec) return
  if (spec.clusterIP && !spec.clusterIPs?.length) spec.clusterIPs = [spec.clusterIP]
  if (!spec.clusterIP && spec.clusterIPs?.[0]) spec.clusterIP = spec.clusterIPs[0]
  if (!needsClusterIP(service)) {
    delete spec.ipFamilies
    delete spec.ipFamilyPolicy
    return
  }
  spec.ipFamilies ??= [isIP(spec.clusterIP ?? '') === 6 ? 'IPv6' : 'IPv4']
  spec.ipFamilyPolicy ??= 'SingleStack'
}

/**
 * Carries what was allocated over to an update that doesn't mention it, and drops what the new type has no use for
 * unless the update set it deliberately.
 */
export function carryAllocations(service: V1Service, old: V1Service): void {
  const spec = service.spec
  const before = old.spec
  if (!spec || !before) return
  if (needsClusterIP(old) && needsClusterIP(service)) {
    spec.clusterIP ||= before.clusterIP
    // Setting only the singular field means its plural too.
    if (spec.clusterIP !== before.clusterIP && sameJson(spec.clusterIPs, before.clusterIPs)) delete spec.clusterIPs
    if (spec.clusterIP === before.clusterIP) spec.clusterIPs ??= before.clusterIPs
  } else if (needsClusterIP(old) && spec.clusterIP === before.clusterIP) {
    delete spec.clusterIP
    delete spec.clusterIPs
  }
  if (needsNodePorts(old) && needsNodePorts(service)) {
    for (const port of spec.ports ?? []) {
      const same = before.ports?.find((other) => other.port === port.port && other.protocol === port.protocol)
      if (!port.nodePort && same?.nodePort) port.nodePort = same.nodePort
    }
  }
  if (needsHealthCheckPort(old) && needsHealthCheckPort(service)) {
    spec.healthCheckNodePort ||= before.healthCheckNodePort
  }
  dropUnused(service, old)
}

function dropUnused(service: V1Service, old: V1Service): void {
  const spec = service.spec
  const before = old.spec
  if (!spec || !before) return
  const exposed = spec.type === 'NodePort' || spec.type === 'LoadBalancer'
  if (!exposed) {
    const held = new Set((before.ports ?? []).map((port) => port.nodePort))
    for (const port of spec.ports ?? []) if (held.has(port.nodePort)) delete port.nodePort
    const external = spec.type === 'ClusterIP' && (spec.externalIPs?.length ?? 0) > 0
    if (!external && spec.externalTrafficPolicy === before.externalTrafficPolicy) delete spec.externalTrafficPolicy
  }
  if (!needsHealthCheckPort(service) && spec.healthCheckNodePort === before.healthCheckNodePort) {
    delete spec.healthCheckNodePort
  }
  if (spec.type !== 'LoadBalancer') {
    if (spec.allocateLoadBalancerNodePorts === before.allocateLoadBalancerNodePorts) {
      delete spec.allocateLoadBalancerNodePorts
    }
    if (spec.loadBalancerClass === before.loadBalancerClass) delete spec.loadBalancerClass
  }
  if (spec.type === 'ExternalName') {
    delete spec.internalTrafficPolicy
    delete spec.ipFamilies
    delete spec.ipFamilyPolicy
  }
}
