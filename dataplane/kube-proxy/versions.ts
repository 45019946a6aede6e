import { Refusal } from '../refusal.ts'

// Changes in kube-proxy between Kubernetes minor versions that affect the state of a node.
// Everything else in this folder reads a Features record; no other file has version numbers.

/** The behaviour of kube-proxy 1.20: each later version changes some of it. */
const V1_20 = {
  /**
   * Unready endpoints of slices: 1.20 drops them immediately, later versions keep them and filter
   * them per use.
   */
  keepsUnreadyEndpoints: false,
  /**
   * Endpoints of several slices are duplicates if their IPs are equal (1.20), later if IP and port
   * are equal.
   */
  endpointsMergeByPort: false,
  /**
   * Of duplicate endpoints a local one is used, later the last one that does not terminate
   * (kubernetes#135593).
   */
  mergedEndpoint: 'local' as 'local' | 'running',
  /** Endpoint IPs are converted to canonical form before chain names are computed (#126203). */
  canonicalEndpointIPs: false,
  /**
   * internalTrafficPolicy: ignored, filters remote endpoints first (1.23), or has a separate chain.
   */
  internalTrafficPolicy: 'ignored' as 'ignored' | 'filters' | 'categorises',
  /** If there is no ready endpoint, terminating endpoints that still serve are used. */
  terminatingEndpoints: false,
  /**
   * Zone hints are used if the annotation is Auto (1.24), if it has any value except Disabled
   * (1.27), or always (1.31).
   */
  zoneHints: 'none' as 'none' | 'auto' | 'annotation' | 'always',
  /** Hints for nodes have precedence over hints for zones (trafficDistribution PreferSameNode). */
  nodeHints: false,
  /** externalTrafficPolicy Local also applies to ClusterIP Services with externalIPs. */
  localPolicyForExternalIPs: false,
  /** A source range of length 0 means that there are no source ranges of its family (#132722). */
  zeroRangeAllowsAll: false,
  /** Ingress addresses with ipMode Proxy are ignored. */
  ingressIPMode: false,
  /**
   * The node IP (for source ranges): bindAddress, even if it is 0.0.0.0; instead of 0.0.0.0 the
   * Node's first address, in its family (1.28); or the Node's addresses in both families (1.29).
   */
  nodeIPs: 'bound' as 'bound' | 'first' | 'both',
  /** One kube-proxy serves both families: only with feature gate IPv6DualStack, or always. */
  dualStack: 'gated' as 'gated' | 'always',
  /** detectLocalMode BridgeInterface and InterfaceNamePrefix exist. */
  detectLocalByInterface: false,
  /** nodePortAddresses may be ["primary"]. */
  primaryNodePortAddress: false,
  /**
   * Number of syncs without minSyncPeriod between them (one since kubernetes/kubernetes#131615).
   */
  syncBurst: 2,
  /** Mode userspace exists (and its rules are modelled). */
  userspace: true,
  /**
   * Mode nftables: not modelled, with feature gate NFTablesProxyMode (1.30; 1.29 had another
   * layout), or available.
   */
  nftables: 'none' as 'none' | 'gated' | 'available',
  /**
   * nftables: only source ranges are checked before the destination is translated, the rest at the
   * usual priority (#132456).
   */
  nftLateFilters: false,
  /**
   * nftables: a detector by interface matches the name, not the index, which does not support
   * prefixes (#134024).
   */
  nftInterfaceName: false,
  /** nftables: the masquerade rule of a ClusterIP matches protocol and port (until #131492). */
  nftClusterIPPort: true,
  /**
   * nftables: packets to unallocated addresses of the ServiceCIDRs are dropped (the API is GA since
   * 1.33).
   */
  nftDropsUnallocated: false,
  /**
   * nftables: endpoints have chains only for session affinity; a set identifies hairpin connections
   * (#135800).
   */
  nftHairpinSet: false,

  /** Per-Service chains of iptables mode; see kube-proxy/iptables. */
  serviceChains: 'masquerade-first' as 'masquerade-first' | 'balanced' | 'external',
  /** Unwanted packets are marked in nat (KUBE-MARK-DROP) or dropped in filter. */
  dropsIn: 'nat' as 'nat' | 'filter',
  /** filter KUBE-NODEPORTS (iptables mode) accepts health check ports. */
  healthCheckRules: false,
  /** KUBE-FORWARD has one conntrack rule instead of a source and a destination one. */
  singleConntrackRule: false,
  /** kube-proxy writes KUBE-FIREWALL itself. */
  kubeFirewall: false,
  /**
   * KUBE-FW- ends in a rule without a target that counts the packets that KUBE-PROXY-FIREWALL
   * drops.
   */
  firewallMarker: false,
  /** Node ports on loopback can be disabled, and never work for IPv6. */
  localhostNodePorts: false,
  /** The rule that drops INVALID packets is omitted if conntrack is liberal. */
  liberalConntrack: false,
  /** Rules have nfacct counters if the kernel supports them. */
  nfacct: false,

  /** ipvs: node ports also on 127.0.0.1. */
  ipvsLoopbackNodePorts: true,
  /** ipvs: the RETURN rule for local SCTP node ports comes after the masquerade rule. */
  ipvsSctpRulesSwapped: true,
  /** ipvs: set KUBE-HEALTH-CHECK-NODE-PORT and filter KUBE-NODE-PORT. */
  ipvsHealthCheck: false,
  /**
   * ipvs: KUBE-IPVS-FILTER, KUBE-IPVS-IPS, and packets from loopback return from KUBE-SERVICES
   * immediately.
   */
  ipvsFilter: false,
  /** ipvs: scheduler mh also hashes ports. */
  ipvsMaglevPort: false,
  /** ipvs: external addresses that another interface has are not bound to kube-ipvs0. */
  ipvsSkipsNodeAddresses: false,
  /** ipvs: KUBE-IPVS-FILTER lets health check ports pass. */
  ipvsFilterHealthCheck: false,
  /** ipvs: KUBE-IPVS-OUT-FILTER. */
  ipvsOutFilter: false,
  /** ipvs: KUBE-IPVS-FILTER lets KUBE-EXTERNAL-IP-LOCAL pass. */
  ipvsFilterExternalLocal: false,
  /**
   * iptables: a sync writes only what has changed, and everything once an hour, not at each
   * syncPeriod (KEP-3453, beta).
   */
  iptablesPartialSyncs: false,
  /**
   * ipvs: without a change, the next sync is an hour after the first one, not syncPeriod (#134147).
   */
  ipvsHourlyResync: false,

  /**
   * The metric of iptables rules counts those that kube-proxy owns (1.22, #99653), by mistake those
   * that the last sync wrote (1.27), or there is one metric for each (1.28, #119140).
   */
  metricsRules: 'none' as 'none' | 'owned' | 'written' | 'both',
  /** iptables mode measures full and partial syncs apart (#117787). */
  metricsFullSyncs: false,
  /** The metrics of syncs have the label ip_family (#129173). */
  metricsIPFamily: false,
}

/** The behaviour of one version of kube-proxy, with its number: `1.30`. */
export type Features = typeof V1_20 & { version: string }

/**
 * The changes from the previous entry, by the version that introduced them. A minor version without
 * an entry is not modelled.
 */
const CHANGES: Readonly<Record<string, Partial<typeof V1_20>>> = {
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
    metricsRules: 'owned',
  },
  '1.24': {
    internalTrafficPolicy: 'categorises',
    zoneHints: 'auto',
    serviceChains: 'external',
  },
  '1.25': { dropsIn: 'filter' },
  '1.26': { terminatingEndpoints: true, localhostNodePorts: true, ipvsFilter: true },
  '1.27': {
    iptablesPartialSyncs: true,
    kubeFirewall: true,
    firewallMarker: true,
    ipvsMaglevPort: true,
    zoneHints: 'annotation',
    metricsRules: 'written',
  },
  '1.28': {
    nodeIPs: 'first',
    ipvsSkipsNodeAddresses: true,
    ipvsFilterHealthCheck: true,
    metricsRules: 'both',
    metricsFullSyncs: true,
  },
  '1.29': {
    liberalConntrack: true,
    ipvsOutFilter: true,
    nodeIPs: 'both',
    localPolicyForExternalIPs: true,
  },
  '1.30': { ingressIPMode: true, ipvsFilterExternalLocal: true, nftables: 'gated' },
  '1.31': {
    canonicalEndpointIPs: true,
    nfacct: true,
    primaryNodePortAddress: true,
    zoneHints: 'always',
    nftables: 'available',
  },
  '1.32': {},
  '1.33': { nftDropsUnallocated: true, metricsIPFamily: true },
  // Cherry-picks #133969 and #134099.
  '1.33.6': { nftLateFilters: true, nftInterfaceName: true },
  '1.34': {
    nodeHints: true,
    nftLateFilters: true,
    nftInterfaceName: false,
    nftClusterIPPort: false,
    syncBurst: 1,
    zeroRangeAllowsAll: true,
    ipvsHourlyResync: true,
  },
  // Cherry-pick #134118.
  '1.34.2': { nftInterfaceName: true },
  // Cherry-picks #136123 and #136122.
  '1.34.4': { ipvsHourlyResync: false },
  '1.35': { ipvsHourlyResync: true },
  '1.35.1': { ipvsHourlyResync: false },
  '1.36': { nftHairpinSet: true, mergedEndpoint: 'running' },
}

/**
 * `v1.30.3`, `1.30`, `v1.31.0-rc.1`, `v1.30.3+k3s1`: the minor and patch number; without a patch
 * number the latest.
 */
function parseVersion(version: string): { minor: number; patch: number } {
  const [, minor, patch] =
    /^v?1\.(\d{1,2})(?:\.(\d{1,3}))?(?:[-+][0-9A-Za-z.+-]*)?$/.exec(version) ?? []
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
export class VersionError extends Refusal {}

/** The newest modelled version if the given one is newer; else undefined. */
export function newestBefore(version: string): string | undefined {
  const newest = SUPPORTED_VERSIONS.at(-1) ?? ''
  return parseVersion(version).minor > parseVersion(newest).minor ? newest : undefined
}

/**
 * The features of a kube-proxy version written as `v1.30.3`, `1.30`, `v1.31.0-rc.1`. Throws
 * VersionError for anything else.
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
