import { type Family, familyOf } from '../ip-address.ts'
import type { KubeProxyConfig } from './config.ts'
import type { Features } from './versions.ts'

const UNSPECIFIED: Record<Family, string> = { ipv4: '0.0.0.0', ipv6: '::' }
const LOOPBACK: Record<Family, string> = { ipv4: '127.0.0.1', ipv6: '::1' }

/**
 * The address that kube-proxy takes for its node's own in one family, which only source ranges and `primary` ask for
 * (nodeIPTuple to 1.27, detectNodeIPs since): the bind address where one is given, else what the Node says, its InternalIPs
 * before its ExternalIPs.
 * @param known the Node's addresses in that order
 */
export function nodeIP(features: Features, config: KubeProxyConfig, known: readonly string[], family: Family): string {
  const bound = Object.values(UNSPECIFIED).includes(config.bindAddress) ? undefined : config.bindAddress
  const boundHere = bound !== undefined && familyOf(bound) === family ? bound : undefined
  const knownHere = known.find((address) => familyOf(address) === family)
  if (features.nodeIPs === 'both') return boundHere ?? knownHere ?? LOOPBACK[family]
  // Where one family is served only, it is that of the node's address.
  if (features.dualStack === 'gated' && !config.dualStack) return bound ?? knownHere ?? LOOPBACK.ipv4
  if (features.nodeIPs === 'bound') return boundHere ?? UNSPECIFIED[family]
  const first = bound ?? known[0] ?? LOOPBACK.ipv4
  return familyOf(first) === family ? first : UNSPECIFIED[family]
}
