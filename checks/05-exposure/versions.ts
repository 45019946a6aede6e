/** The chain with which kube-proxy closes ClusterIPs to all but Services, since 1.26. */
export const ACCESS_FILTER = 'KUBE-IPVS-FILTER'

/** How to get the rules of before on either kind of cluster. */
export const OLD_RULES =
  'make iptables, then make ipvs KUBE_PROXY_VERSION=1.20. On a cluster that runs one version only, take the jump to KUBE-IPVS-FILTER out of INPUT; kube-proxy puts it back within 30 seconds.'
