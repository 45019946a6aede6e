import { toPort } from '../rule-text.ts'
import type { TableBuilder } from '../ruleset-builder.ts'
import type { ServicePort } from '../service-ports.ts'

/** filter KUBE-NODEPORTS lets a load balancer ask this node, whether or not it has endpoints. */
export function writeHealthCheck(filter: TableBuilder, port: ServicePort): void {
  if (port.healthCheckNodePort === 0) return
  const match = toPort('tcp', `${port.name} health check node port`, port.healthCheckNodePort)
  filter.add('KUBE-NODEPORTS', `${match}-j ACCEPT`)
}
