import { canonicalCidr, type Family, familyOf } from '../ip-address.ts'
import type { KubeProxyConfig } from './config.ts'
import type { Features } from './versions.ts'

/** How rules tell traffic of Pods on this node (or in this cluster) from the rest; texts as iptables-save prints them. */
export interface LocalDetector {
  /** Source match, `-s 10.244.0.0/16 `, printed before `-d`; empty when an interface decides. */
  local: { source: string; interface: string }
  notLocal: { source: string; interface: string }
}

/**
 * The detector of one family, or undefined when kube-proxy has none (detectLocalMode without its value): then no rule
 * tells local traffic apart. Only the first range of the family counts (pkg/proxy/util/iptables/traffic.go).
 */
export function localDetector(
  config: KubeProxyConfig,
  podCIDRs: readonly string[],
  family: Family,
  features: Features,
): LocalDetector | undefined {
  const mode = config.detectLocalMode
  if (mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix') {
    const given = mode === 'BridgeInterface' ? config.bridgeInterface : config.interfaceNamePrefix
    if (given === '' || !features.detectLocalByInterface) return undefined
    const match = mode === 'BridgeInterface' ? given : `${given}+`
    return {
      local: { source: '', interface: `-i ${match} ` },
      notLocal: { source: '', interface: `! -i ${match} ` },
    }
  }
  const cidrs = mode === 'NodeCIDR' ? podCIDRs : config.clusterCIDR.split(',')
  const cidr = cidrs.map((part) => part.trim()).find((part) => part !== '' && familyOf(part) === family)
  if (cidr === undefined) return undefined
  const range = canonicalCidr(cidr)
  return {
    local: { source: `-s ${range} `, interface: '' },
    notLocal: { source: `! -s ${range} `, interface: '' },
  }
}
