// Changes in kube-proxy between Kubernetes minor versions that affect the state of a node. Everything else in this folder
// reads a Features record; no other file has version numbers.

/** The behaviour of one version of kube-proxy. */
export interface Features {
  /** `1.30` */
  version: string
  /** Unready endpoints of slices: 1.20 drops them immediately, later versions keep them and filter them per use. */
  keepsUnreadyEndpoints: boolean
  /** Endpoints of several slices are duplicates if their IPs are equal (1.20), later if IP and port are equal. */
  endpointsMergeByPort: boolean
  /** Of duplicate endpoints a local one is used, later the last one that does not terminate (kubernetes#135593). */
  mergedEndpoint: 'local' | 'running'
  /** Endpoint IPs are converted to canonical form before chain names are computed. */
  canonicalEndpointIPs: boolean
  /** internalTrafficPolicy: ignored, filters remote endpoints first (1.23), or has a separate chain. */
  internalTrafficPolicy: 'ignored' | 'filters' | 'categorises'
  /** If there is no ready endpoint, terminating endpoints that still serve are used. */
  terminatingEndpoints: boolean
  /**
   * Zone hints are used if the annotation is Auto (1.24), if it has any value except Disabled (1.27), or always (1.31).
   */
  zoneHints: 'none' | 'auto' | 'annotation' | 'always'
  /** Hints for nodes have precedence over hints for zones (trafficDistribution PreferSameNode). */
  nodeHints: boolean
  /** externalTrafficPolicy Local also applies to ClusterIP Services with externalIPs. */
  localPolicyForExternalIPs: boolean
  /** Ingress addresses with ipMode Proxy are ignored. */
  ingressIPMode: boolean
  /**
   * The node IP (for source ranges): bindAddress, even if it is 0.0.0.0; instead of 0.0.0.0 the Node's first address, in
   * its family (1.28); or the Node's addresses in both families (1.29).
   */
  nodeIPs: 'bound' | 'first' | 'both'
  /** One kube-proxy serves both families: only with feature gate IPv6DualStack, or always. */
  dualStack: 'gated' | 'always'
  /** detectLocalMode BridgeInterface and InterfaceNamePrefix exist. */
  detectLocalByInterface: boolean
  /** nodePortAddresses may be ["primary"]. */
  primaryNodePortAddress: boolean
  /** Number of syncs without minSyncPeriod between them (one since kubernetes/kubernetes#131615). */
  syncBurst: number
  /** Mode userspace exists (and its rules are modelled). */
  userspace: boolean
  /** Mode nftables: not modelled, with feature gate NFTablesProxyMode (1.30; 1.29 had another layout), or available. */
  nftables: 'none' | 'gated' | 'available'
  /** nftables: only source ranges are checked before the destination is translated, the rest at the usual priority (#132456). */
  nftLateFilters: boolean
  /** nftables: a detector by interface matches the name, not the index, which does not support prefixes (#134024). */
  nftInterfaceName: boolean
  /** nftables: the masquerade rule of a ClusterIP matches protocol and port (until #131492). */
  nftClusterIPPort: boolean
  /** nftables: packets to unallocated addresses of the ServiceCIDRs are dropped (the API is GA since 1.33). */
  nftDropsUnallocated: boolean
  /** nftables: endpoints have chains only for session affinity; a set identifies hairpin connections (#135800). */
  nftHairpinSet: boolean

  /** Per-Service chains of iptables mode; see kube-proxy/iptables. */
  serviceChains: 'masquerade-first' | 'balanced' | 'external'
  /** Unwanted packets are marked in nat (KUBE-MARK-DROP) or dropped in filter. */
  dropsIn: 'nat' | 'filter'
  /** filter KUBE-NODEPORTS (iptables mode) accepts health check ports. */
  healthCheckRules: boolean
  /** KUBE-FORWARD has one conntrack rule instead of a source and a destination one. */
  singleConntrackRule: boolean
  /** kube-proxy writes KUBE-FIREWALL itself. */
  kubeFirewall: boolean
  /** KUBE-FW- ends in a rule without a target that counts the packets that KUBE-PROXY-FIREWALL drops. */
  firewallMarker: boolean
  /** Node ports on loopback can be disabled, and never work for IPv6. */
  localhostNodePorts: boolean
  /** The rule that drops INVALID packets is omitted if conntrack is liberal. */
  liberalConntrack: boolean
  /** Rules have nfacct counters if the kernel supports them. */
  nfacct: boolean

  /** ipvs: node ports also on 127.0.0.1. */
  ipvsLoopbackNodePorts: boolean
  /** ipvs: the RETURN rule for local SCTP node ports comes after the masquerade rule. */
  ipvsSctpRulesSwapped: boolean
  /** ipvs: set KUBE-HEALTH-CHECK-NODE-PORT and filter KUBE-NODE-PORT. */
  ipvsHealthCheck: boolean
  /** ipvs: a Local policy without local endpoints falls back to all endpoints. */
  ipvsLocalFallback: boolean
  /** ipvs: KUBE-IPVS-FILTER, KUBE-IPVS-IPS, and packets from loopback return from KUBE-SERVICES immediately. */
  ipvsFilter: boolean
  /** ipvs: scheduler mh also hashes ports. */
  ipvsMaglevPort: boolean
  /** ipvs: external addresses that another interface has are not bound to kube-ipvs0. */
  ipvsSkipsNodeAddresses: boolean
  /** ipvs: KUBE-IPVS-FILTER lets health check ports pass. */
  ipvsFilterHealthCheck: boolean
  /** ipvs: KUBE-IPVS-OUT-FILTER. */
  ipvsOutFilter: boolean
  /** ipvs: KUBE-IPVS-FILTER lets KUBE-EXTERNAL-IP-LOCAL pass. */
  ipvsFilterExternalLocal: boolean
}

type Change = Partial<Omit<Features, 'version'>>

const V1_20: Omit<Features, 'version'> = {
  keepsUnreadyEndpoints: false,
  endpointsMergeByPort: false,
  mergedEndpoint: 'local',
  canonicalEndpointIPs: false,
  internalTrafficPolicy: 'ignored',
  terminatingEndpoints: false,
  zoneHints: 'none',
  nodeHints: false,
  localPolicyForExternalIPs: false,
  ingressIPMode: false,
  nodeIPs: 'bound',
  dualStack: 'gated',
  detectLocalByInterface: false,
  primaryNodePortAddress: false,
  syncBurst: 2,
  userspace: true,
  nftables: 'none',
  nftLateFilters: false,
  nftInterfaceName: false,
  nftClusterIPPort: true,
  nftDropsUnallocated: false,
  nftHairpinSet: false,
  serviceChains: 'masquerade-first',
  dropsIn: 'nat',
  healthCheckRules: false,
  singleConntrackRule: false,
  kubeFirewall: false,
  firewallMarker: false,
  localhostNodePorts: false,
  liberalConntrack: false,
  nfacct: false,
  ipvsLoopbackNodePorts: true,
  ipvsSctpRulesSwapped: true,
  ipvsHealthCheck: false,
  ipvsLocalFallback: false,
  ipvsFilter: false,
  ipvsMaglevPort: false,
  ipvsSkipsNodeAddresses: false,
  ipvsFilterHealthCheck: false,
  ipvsOutFilter: false,
  ipvsFilterExternalLocal: false,
}

/**
 * The changes from the previous entry, by the version that introduced them. A minor version without an entry is not
 * modelled.
 */
const CHANGES: Readonly<Record<string, Change>> = {
  '1.20': {},
  '1.23': {
    keepsUnreadyEndpoints: true,
    endpointsMergeByPort: true,
    internalTrafficPolicy: 'filters',
    dualStack: 'always',
    detectLocalByInterface: true,
    userspace: false,
    serviceChains: 'balanced',
    healthCheckRules: true,
    singleConntrackRule: true,
    ipvsLoopbackNodePorts: false,
    ipvsSctpRulesSwapped: false,
    ipvsHealthCheck: true,
  },
  '1.24': {
    internalTrafficPolicy: 'categorises',
    zoneHints: 'auto',
    serviceChains: 'external',
    ipvsLocalFallback: true,
  },
  '1.25': { dropsIn: 'filter' },
  '1.26': { terminatingEndpoints: true, localhostNodePorts: true, ipvsFilter: true },
  '1.27': { kubeFirewall: true, firewallMarker: true, ipvsMaglevPort: true, zoneHints: 'annotation' },
  '1.28': { nodeIPs: 'first', ipvsSkipsNodeAddresses: true, ipvsFilterHealthCheck: true },
  '1.29': { liberalConntrack: true, ipvsOutFilter: true, nodeIPs: 'both', localPolicyForExternalIPs: true },
  '1.30': { ingressIPMode: true, ipvsFilterExternalLocal: true, nftables: 'gated' },
  '1.31': { nfacct: true, primaryNodePortAddress: true, zoneHints: 'always', nftables: 'available' },
  '1.32': {},
  '1.33': { nftDropsUnallocated: true },
  // Cherry-picks #133969 and #134099.
  '1.33.6': { nftLateFilters: true, nftInterfaceName: true },
  '1.34': {
    nodeHints: true,
    nftLateFilters: true,
    nftInterfaceName: false,
    nftClusterIPPort: false,
    syncBurst: 1,
  },
  // Cherry-pick #134118.
  '1.34.2': { nftInterfaceName: true },
  '1.35': {},
  '1.36': { nftHairpinSet: true, mergedEndpoint: 'running', canonicalEndpointIPs: true },
}

/** `v1.30.3`, `1.30`, `v1.31.0-rc.1`, `v1.30.3+k3s1`: the minor and patch number; without a patch number the latest. */
function parseVersion(version: string): { minor: number; patch: number } {
  const [, minor, patch] = /^v?1\.(\d{1,2})(?:\.(\d{1,3}))?(?:[-+][0-9A-Za-z.+-]*)?$/.exec(version) ?? []
  return { minor: Number(minor), patch: Number(patch ?? Number.POSITIVE_INFINITY) }
}

/** The modelled minor versions with the patch versions that changed behaviour, the latest first. */
const table = new Map<number, { patch: number; features: Features }[]>()
{
  let features: Features = { ...V1_20, version: '1.20' }
  for (const [from, change] of Object.entries(CHANGES)) {
    const { minor, patch } = parseVersion(from)
    features = { ...features, ...change, version: `1.${minor}` }
    const first = Number.isFinite(patch) ? patch : 0
    table.set(minor, [{ patch: first, features }, ...(table.get(minor) ?? [])])
  }
}

/** Every modelled version, oldest first: `1.20`, `1.23`, … */
export const SUPPORTED_VERSIONS: readonly string[] = [...table.keys()].map((minor) => `1.${minor}`)

/** The version is not modelled; the message lists those that are. */
export class VersionError extends Error {}

/** The newest modelled version if the given one is newer; else undefined. */
export function newestBefore(version: string): string | undefined {
  const newest = SUPPORTED_VERSIONS.at(-1) ?? ''
  return parseVersion(version).minor > parseVersion(newest).minor ? newest : undefined
}

/**
 * The features of a kube-proxy version written as `v1.30.3`, `1.30`, `v1.31.0-rc.1`.
 * @throws VersionError for anything else.
 */
export function featuresOf(version: string): Features {
  const { minor, patch } = parseVersion(version)
  const known = table.get(minor)?.find((level) => level.patch <= patch)
  if (known) return known.features
  const newest = newestBefore(version)
  throw new VersionError(
    newest === undefined
      ? `kube-proxy version "${version}" is not modelled; give one of ${SUPPORTED_VERSIONS.join(', ')} (for example --kube-proxy v1.30).`
      : `kube-proxy version "${version}" is newer than the modelled versions; the newest is ${newest} (--kube-proxy v${newest}).`,
  )
}
