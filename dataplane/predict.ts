import type { Family } from './ip-address.ts'
import { clusterConfig, type KubeProxyConfig, type KubeProxyMode } from './kube-proxy/config.ts'
import { iptablesRuleset } from './kube-proxy/iptables/static-chains.ts'
import { ipvsRuleset } from './kube-proxy/ipvs/ruleset.ts'
import { dummyLink, type IpvsState, ipvsState } from './kube-proxy/ipvs/state.ts'
import { nftablesTable, withNftablesDefaults } from './kube-proxy/nftables/service-chains.ts'
import { defaultNodeAddresses } from './kube-proxy/node-addresses.ts'
import type { OriginRecorder } from './kube-proxy/origins.ts'
import { type ProxierInput, proxierOf } from './kube-proxy/proxier.ts'
import { userspaceRuleset } from './kube-proxy/userspace/ruleset.ts'
import { type Features, featuresOf } from './kube-proxy/versions.ts'
import type { NodeState } from './node-state.ts'
import type { ClusterObjects } from './objects.ts'
import { Refusal } from './refusal.ts'

export interface PredictOptions {
  /** The node's name. */
  node: string
  mode: KubeProxyMode
  /** `v1.30.3`, `1.20`, … */
  version: string
  /**
   * Default: from the objects' ConfigMap; without one, the defaults and the Pod range inferred from
   * the nodes.
   */
  config?: KubeProxyConfig
  /**
   * All of the node's own addresses, without those of kube-ipvs0; default: from the Node object.
   */
  nodeAddresses?: string[]
  /**
   * The family of the iptables rules; sets, virtual servers and addresses are always those of the
   * whole node.
   */
  family?: Family
  /** Also predicts the IPv6 rules, beside those of IPv4. */
  ip6tables?: boolean
}

/** The options name something that does not exist; the message is one sentence for people. */
export class PredictError extends Refusal {}

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
 * nft refuses `iif "veth*"`, because iif compares an interface's index: before kube-proxy wrote
 * iifname (1.33.6, 1.34.2), every sync failed in this configuration (recorded with genuine 1.32.5
 * and 1.33.5).
 */
function requireLoadable(version: string, features: Features, config: KubeProxyConfig): void {
  if (features.nftInterfaceName || config.detectLocalMode !== 'InterfaceNamePrefix') return
  if (config.interfaceNamePrefix === '') return
  throw new PredictError(
    `kube-proxy "${version}" programs nothing in mode nftables with detectLocal.interfaceNamePrefix "${config.interfaceNamePrefix}": nft refuses its rules (iif "${config.interfaceNamePrefix}*") at every sync. Use 1.34.2 or newer, or another detectLocalMode.`,
  )
}

/**
 * Before 1.31 kube-proxy writes an endpoint's address as the slice spells it, so that rules for
 * IPv4 have `[::ffff:10.244.1.5]:80`, and iptables-restore refuses all of them. The API server
 * takes such an address for IPv4 (until StrictIPCIDRValidation).
 */
function requireUnmapped(objects: ClusterObjects, version: string): void {
  for (const { namespace, name, addressType, endpoints } of objects.endpointSlices)
    for (const { spelling, addresses } of endpoints)
      if (addressType === 'IPv4' && spelling?.includes(':'))
        throw new PredictError(
          `The endpoint address "${spelling}" of EndpointSlice ${namespace}/${name} is modelled from kube-proxy 1.31 on, which reads it as ${addresses[0]}. "${version}" writes it into rules for IPv4 as it is, and iptables-restore refuses them. Write ${addresses[0]} in the slice.`,
        )
}

/** The proxiers of one node by family, in the order in which they write. */
export type Proxiers = ReadonlyMap<Family, ProxierInput>

/** The input of a node's kube-proxy for each family that it serves; throws as predict does. */
export function proxiersOf(objects: ClusterObjects, options: PredictOptions): Proxiers {
  const features = featuresOf(options.version)
  checkOptions(objects, options, features)
  if (!features.canonicalEndpointIPs) requireUnmapped(objects, options.version)
  const requested = options.config ?? clusterConfig(objects)
  const config = options.mode === 'nftables' ? withNftablesDefaults(requested) : requested
  if (options.mode === 'nftables') requireLoadable(options.version, features, config)
  const family = options.family ?? 'ipv4'
  const addresses = options.nodeAddresses ?? defaultNodeAddresses(objects, options.node)
  const served =
    options.mode === 'nftables' || options.mode === 'ipvs'
      ? families(features, config, family)
      : [family]
  return new Map(
    served.map((of) => [of, proxierOf(objects, options.node, of, features, config, addresses)]),
  )
}

/**
 * The state that proxiers of a mode write; the iptables rules are those of one family.
 * @param origins records what the entries come from
 */
export function writeState(
  proxiers: Proxiers,
  { mode, family = 'ipv4' }: Pick<PredictOptions, 'mode' | 'family'>,
  origins?: OriginRecorder,
): NodeState {
  const nothing: NodeState = {
    iptables: new Map(),
    ipsets: new Map(),
    virtualServers: [],
    links: [],
  }
  if (mode === 'nftables')
    return {
      ...nothing,
      nftables: [...proxiers.values()].map((one) => nftablesTable(one, origins)),
    }
  const own = proxiers.get(family) as ProxierInput
  if (mode !== 'ipvs')
    return {
      ...nothing,
      iptables: (mode === 'iptables' ? iptablesRuleset : userspaceRuleset)(own, origins),
    }
  const states = new Map([...proxiers].map(([of, one]) => [of, ipvsState(one, origins)]))
  const all = [...states.values()]
  return {
    iptables: ipvsRuleset(own, states.get(family) as IpvsState, origins),
    ipsets: new Map(all.flatMap((state) => [...state.sets.build()])),
    virtualServers: all.flatMap((state) => state.virtualServers),
    links: [dummyLink(all.flatMap((state) => [...state.bound]))],
  }
}

/**
 * Predicts the state that a genuine kube-proxy of this version and mode programs on an empty node.
 * Rules are in the syntax and order of iptables-save, Services in the order of the objects.
 * @throws VersionError for a version that is not modelled, PredictError for an unknown node or
 * mode, or where kube-proxy can program nothing.
 */
export function predict(objects: ClusterObjects, options: PredictOptions): NodeState {
  const state = writeState(proxiersOf(objects, options), options)
  if (!options.ip6tables) return state
  const inSix = { ...options, family: 'ipv6', ip6tables: false } as const
  return { ...state, ip6tables: writeState(proxiersOf(objects, inSix), inSix).iptables }
}
