import { canonicalCidr, type Family, familyOf } from '../ip-address.ts'
import type { ClusterObjects } from '../objects.ts'

/** The usual size of a Service range: kind's and k3s's /16, and the /112 of IPv6 examples. kubeadm's own default is a /12. */
const USUAL_LENGTH: Record<Family, number> = { ipv4: 16, ipv6: 112 }

/**
 * The ranges of one family that Services get their addresses from: those of the ServiceCIDR objects (networking.k8s.io/v1).
 * Where the objects hold none, the range of usual size around the address of Service default/kubernetes, which is always the
 * first of the range.
 */
export function serviceCIDRs(objects: ClusterObjects, family: Family): string[] {
  const ofFamily = (texts: readonly string[]) => texts.filter((text) => familyOf(text) === family)
  if (objects.serviceCIDRs.length > 0) return [...new Set(ofFamily(objects.serviceCIDRs).map(canonicalCidr))].sort()
  const kubernetes = objects.services.find(({ namespace, name }) => namespace === 'default' && name === 'kubernetes')
  return ofFamily(kubernetes?.clusterIPs ?? []).map((address) => canonicalCidr(`${address}/${USUAL_LENGTH[family]}`))
}
