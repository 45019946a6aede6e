import { trafficDistributions } from '../apiserver/traffic-distribution.ts'
import type { NodeObject, ServiceObject, SliceEndpoint } from './resources.ts'

export const zoneLabel = 'topology.kubernetes.io/zone'

/**
 * The annotations of topology-aware routing (KEP-2433). Where they are set, the field has no
 * effect.
 */
const topologyAnnotations = [
  'service.kubernetes.io/topology-mode',
  'service.kubernetes.io/topology-aware-hints',
]

/** The zone of a node; undefined if it has no label for it. */
export const zoneOf = (node: NodeObject | undefined): string | undefined =>
  node?.metadata.labels?.[zoneLabel] || undefined

/**
 * The hints of one endpoint, as the controller of this minor version derives them from the
 * Service's traffic distribution: its zone, and since 1.34 for PreferSameNode also its node.
 * Undefined for an endpoint that is not ready, for a value that this version does not have, and
 * where an annotation asks for topology-aware routing, which is not modelled.
 */
export function hintsFor(
  service: ServiceObject,
  { conditions, nodeName, zone }: SliceEndpoint,
  minor?: number,
): SliceEndpoint['hints'] {
  const distribution = service.spec.trafficDistribution ?? ''
  const annotations = service.metadata.annotations ?? {}
  if (topologyAnnotations.some((key) => /^auto$/i.test(annotations[key] ?? ''))) return undefined
  if (!trafficDistributions(minor).includes(distribution) || !conditions?.ready) return undefined
  const forZones = zone ? [{ name: zone }] : undefined
  const forNodes = distribution === 'PreferSameNode' && nodeName ? [{ name: nodeName }] : undefined
  if (!forZones && !forNodes) return undefined
  return { ...(forNodes && { forNodes }), ...(forZones && { forZones }) }
}
