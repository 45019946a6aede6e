/**
 * Chains with kube-proxy's prefix that are the kubelet's alone, in every table.
 * Source: kubelet since 1.17 (canary) and 1.23 (hint).
 */
const KUBELET_CHAINS = new Set(['KUBE-KUBELET-CANARY', 'KUBE-IPTABLES-HINT'])

/**
 * Chains that kubelet and kube-proxy both write: what is missing there is kube-proxy's matter, what is more is not
 * (kubelet up to 1.26: nat KUBE-MARK-DROP and filter KUBE-FIREWALL; later only the latter).
 */
const SHARED_CHAINS = new Set(['nat KUBE-MARK-DROP', 'filter KUBE-FIREWALL'])

/** Whether kube-proxy writes this chain; everything else in the table is somebody else's (KIND-, DOCKER_, CNI-, ts-, …). */
export function isKubeProxyChain(chain: string): boolean {
  return chain.startsWith('KUBE-') && !KUBELET_CHAINS.has(chain)
}

/** Whether the kubelet may have put more into this chain than kube-proxy did. */
export function isSharedChain(table: string, chain: string): boolean {
  return SHARED_CHAINS.has(`${table} ${chain}`)
}

/** Whether kube-proxy makes sets of this name. */
export function isKubeProxySet(name: string): boolean {
  return name.startsWith('KUBE-')
}

/** The link that IPVS mode binds Service addresses to. */
export const IPVS_LINK = 'kube-ipvs0'
