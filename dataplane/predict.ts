import type { Family } from './ip-address.ts'
import type { Ruleset } from './iptables-save.ts'
import { clusterConfig } from './kube-proxy/cluster-config.ts'
import type { KubeProxyConfig, KubeProxyMode } from './kube-proxy/config.ts'
import { iptablesRuleset } from './kube-proxy/iptables/static-chains.ts'
import { ipvsRuleset } from './kube-proxy/ipvs/ruleset.ts'
import { dummyLink, type IpvsState, ipvsState } from './kube-proxy/ipvs/state.ts'
import { nftablesTable, withNftablesDefaults } from './kube-proxy/nftables/service-chains.ts'
import { defaultNodeAddresses } from './kube-proxy/node-addresses.ts'
import { type Proxier, proxierOf } from './kube-proxy/proxier.ts'
import { userspaceRuleset } from './kube-proxy/userspace/ruleset.ts'
import { type Features, featuresOf } from './kube-proxy/versions.ts'
import type { NodeState } from './node-state.ts'
import type { ClusterObjects } from './objects.ts'

export interface PredictOptions {
  /** The node's name. */
  node: string
  mode: KubeProxyMode
  /** `v1.30.3`, `1.20`, … */
  version: string
  /**
   * Default: from the objects' ConfigMap; without one, the defaults and the Pod range inferred from the nodes.
   */
  config?: KubeProxyConfig
  /** All of the node's own addresses, without those of kube-ipvs0; default: from the Node object. */
  nodeAddresses?: string[]
  /** The family of the iptables rules; sets, virtual servers and addresses are always those of the whole node. */
  family?: Family
}

/** The options name something that does not exist; the message is one sentence for people. */
export class PredictError extends Error {}

/** Since 1.21 kube-proxy serves both families; before, only with a feature gate. */
const families = (features: Features, config: KubeProxyConfig, family: Family): Family[] =>
  features.dualStack === 'always' || config.dualStack ? ['ipv4', 'ipv6'] : [family]

function checkOptions(objects: ClusterObjects, options: PredictOptions, features: Features): void {
  if (objects.nodes.length > 0 && !objects.nodes.some((node) => node.name === options.node)) {
    const names = objects.nodes.map((node) => node.name).join(', ')
    throw new PredictError(`Node "${options.node}" is not among the objects; they have ${names}.`)
  }
  if (options.mode === 'userspace' && !features.userspace)
    throw new PredictError(
      `Mode "userspace" is modelled for kube-proxy 1.20 only, not "${options.version}"; add --kube-proxy v1.20.`,
    )
  if (options.mode === 'nftables' && features.nftables === 'none')
    throw new PredictError(
      `Mode "nftables" is modelled from kube-proxy 1.30 on, not for "${options.version}"; add --kube-proxy v1.34.`,
    )
}

/**
 * Predicts the state that a genuine kube-proxy of this version and mode programs on an empty node. Rules are in
 * the syntax and order of iptables-save, Services in the order of the objects.
 * @throws VersionError for a version that is not modelled, PredictError for an unknown node or mode.
 */
export function predict(objects: ClusterObjects, options: PredictOptions): NodeState {
  const features = featuresOf(options.version)
  checkOptions(objects, options, features)
  const given = options.config ?? clusterConfig(objects)
  const config = options.mode === 'nftables' ? withNftablesDefaults(given) : given
  const family = options.family ?? 'ipv4'
  const addresses = options.nodeAddresses ?? defaultNodeAddresses(objects, options.node)
  const proxier = (of: Family): Proxier => proxierOf(objects, options.node, of, features, config, addresses)

  if (options.mode === 'nftables') {
    const nftables = families(features, config, family).map((of) => nftablesTable(proxier(of)))
    return { iptables: new Map(), ipsets: new Map(), virtualServers: [], links: [], nftables }
  }
  if (options.mode !== 'ipvs') {
    const write: (proxier: Proxier) => Ruleset = options.mode === 'iptables' ? iptablesRuleset : userspaceRuleset
    return { iptables: write(proxier(family)), ipsets: new Map(), virtualServers: [], links: [] }
  }
  const states = new Map<Family, [Proxier, IpvsState]>()
  for (const of of families(features, config, family)) {
    const one = proxier(of)
    states.set(of, [one, ipvsState(one)])
  }
  const all = [...states.values()].map(([, state]) => state)
  const [own, ownState] = states.get(family) as [Proxier, IpvsState]
  return {
    iptables: ipvsRuleset(own, ownState),
    ipsets: new Map(all.flatMap((state) => [...state.sets.build()])),
    virtualServers: all.flatMap((state) => state.virtualServers),
    links: [dummyLink(all.flatMap((state) => [...state.bound]))],
  }
}
