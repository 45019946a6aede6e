import type { Ruleset } from '../iptables-save.ts'
import type { VirtualServer } from '../ipvsadm-save.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import type { PredictOptions } from '../predict.ts'
import type { KubeProxyConfig, KubeProxyMode } from './config.ts'
import { DUMMY_LINK, isChainOfAnyMode, isNodePort } from './mode-ownership.ts'
import { addressesAtLastSync, linkAddresses } from './node-addresses.ts'
import { featuresOf } from './versions.ts'

/** What is known about a node's kube-proxy without the node's state. */
interface KnownNode {
  node: string
  mode: KubeProxyMode
  /** `v1.34.2` */
  version: string
  config: KubeProxyConfig
}

/**
 * The options of a prediction that is compared with an observed node. Every circumstance that only
 * the node's state shows is decided here: its addresses, nfacct counters, feature gate
 * IPv6DualStack of 1.20, a second sync in IPVS mode, and whether its kube-proxy writes IPv6 rules.
 * @throws VersionError for a version that is not modelled
 */
export function observedOptions(
  objects: ClusterObjects,
  observed: NodeState,
  known: KnownNode,
): PredictOptions {
  const { node, mode, version } = known
  const config: KubeProxyConfig = {
    ...known.config,
    nfacct: known.config.nfacct || hasCounters(observed.iptables),
    dualStack: known.config.dualStack || hasIPv6Sets(observed),
    resynced: known.config.resynced || servesNodePortsOnBound(observed),
  }
  const servesBoth =
    mode !== 'userspace' && (featuresOf(version).dualStack === 'always' || config.dualStack)
  return {
    node,
    mode,
    version,
    config,
    nodeAddresses:
      mode === 'ipvs' ? addressesAtLastSync(objects, node, observed) : linkAddresses(observed),
    ip6tables: servesBoth && observed.ip6tables !== undefined && hasOwnChains(observed.ip6tables),
  }
}

/**
 * nfacct counters are in rules of 1.31 and newer if the kernel has nfnetlink_acct
 * (kubernetes/kubernetes#124556): of INVALID packets, and of packets to node ports on loopback.
 */
const hasCounters = (rules: Ruleset): boolean =>
  ['KUBE-FORWARD', 'KUBE-NODEPORTS'].some((chain) =>
    ['filter', 'nat'].some((table) =>
      rules
        .get(table)
        ?.get(chain)
        ?.rules.some((rule) => rule.spec.includes('--nfacct-name')),
    ),
  )

const hasIPv6Sets = ({ ipsets }: NodeState): boolean =>
  [...ipsets.keys()].some((name) => name.startsWith('KUBE-6-'))

/**
 * Whether a port in the range of node ports is served on an address of kube-ipvs0 and on another
 * address.
 */
function servesNodePortsOnBound({ links, virtualServers }: NodeState): boolean {
  const dummy = links.find(({ name }) => name === DUMMY_LINK)
  const bound = new Set(dummy?.addresses.map(({ address }) => address))
  const key = ({ protocol, port }: VirtualServer) => `${protocol} ${port}`
  const servers = virtualServers.filter(({ port }) => isNodePort(port))
  const elsewhere = new Set(servers.filter(({ address }) => !bound.has(address)).map(key))
  return servers.some((server) => bound.has(server.address) && elsewhere.has(key(server)))
}

/**
 * kube-proxy writes no IPv6 rules on a kernel without them; the kubelet's own chains may be there
 * all the same.
 */
const hasOwnChains = (rules: Ruleset): boolean =>
  [...rules].some(([table, chains]) =>
    [...chains.keys()].some((chain) => isChainOfAnyMode(table, chain)),
  )
