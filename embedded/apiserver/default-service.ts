import type { V1Endpoints, V1Service } from '@kubernetes/client-node'

/** Fills in what a Service leaves open (core/v1 defaults and the Service registry); addresses and ports are allocated elsewhere. */
export function defaultService(service: V1Service): void {
  const spec = service.spec
  if (!spec) return
  spec.type ??= 'ClusterIP'
  spec.sessionAffinity ??= 'None'
  if (spec.sessionAffinity === 'ClientIP') {
    spec.sessionAffinityConfig ??= {}
    spec.sessionAffinityConfig.clientIP ??= {}
    spec.sessionAffinityConfig.clientIP.timeoutSeconds ??= 10_800
  } else {
    delete spec.sessionAffinityConfig
  }
  for (const port of spec.ports ?? []) {
    port.protocol ??= 'TCP'
    if (port.targetPort === undefined || port.targetPort === '' || port.targetPort === 0) port.targetPort = port.port
  }
  if (spec.type === 'ExternalName') return
  spec.internalTrafficPolicy ??= 'Cluster'
  if (spec.type === 'NodePort' || spec.type === 'LoadBalancer') spec.externalTrafficPolicy ??= 'Cluster'
  if (spec.type === 'LoadBalancer') spec.allocateLoadBalancerNodePorts ??= true
  for (const ingress of service.status?.loadBalancer?.ingress ?? []) if (ingress.ip) ingress.ipMode ??= 'VIP'
}

/** core/v1 defaults of Endpoints. */
export function defaultEndpoints(endpoints: V1Endpoints): void {
  for (const subset of endpoints.subsets ?? []) for (const port of subset.ports ?? []) port.protocol ??= 'TCP'
}
