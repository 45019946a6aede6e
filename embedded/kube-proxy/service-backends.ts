import { readyEndpoints } from '../../dataplane/kube-proxy/endpoint-categories.ts'
import { trackEndpoints } from '../../dataplane/kube-proxy/endpoints.ts'
import { type ServicePort, servicePorts } from '../../dataplane/kube-proxy/service-ports.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'

/** A Service with a health check port on this node. */
export interface HealthCheck {
  port: number
  namespace: string
  name: string
  /** Ready endpoints of this node, counted by address. */
  localEndpoints: number
}

/** The health check ports of one node's kube-proxy, and the valid destinations of UDP flows. */
export interface ServiceBackends {
  healthChecks: HealthCheck[]
  /** `address:port`, or `:port` for a node port, to the addresses of the endpoints behind it. UDP only. */
  udp: Map<string, Set<string>>
}

const serviceName = (port: ServicePort) => /^([^/]*)\/([^:]*)/.exec(port.name)?.slice(1) ?? []

/** Computes them for one node and version. */
export function serviceBackends(objects: ClusterObjects, node: string, version: string): ServiceBackends {
  const features = featuresOf(version)
  const ports = servicePorts(objects, trackEndpoints(objects, node, 'ipv4', features), 'ipv4', features)
  const local = new Map<number, Set<string>>()
  const checks = new Map<number, HealthCheck>()
  const udp = new Map<string, Set<string>>()
  for (const port of ports) {
    if (port.healthCheckNodePort !== 0) {
      const [namespace = '', name = ''] = serviceName(port)
      const here = local.get(port.healthCheckNodePort) ?? new Set()
      for (const { ip, isLocal } of readyEndpoints(port)) if (isLocal) here.add(ip)
      local.set(port.healthCheckNodePort, here)
      checks.set(port.healthCheckNodePort, {
        port: port.healthCheckNodePort,
        namespace,
        name,
        localEndpoints: here.size,
      })
    }
    if (port.protocol === 'udp') addUdp(port, udp)
  }
  return { healthChecks: [...checks.values()], udp }
}

function addUdp(port: ServicePort, udp: Map<string, Set<string>>): void {
  const usable = port.endpoints.filter(({ ready, serving }) => ready || serving).map(({ ip }) => ip)
  for (const address of [port.clusterIP, ...port.externalIPs, ...port.loadBalancerIPs])
    udp.set(`${address}:${port.port}`, new Set(usable))
  if (port.nodePort !== 0) udp.set(`:${port.nodePort}`, new Set(usable))
}
