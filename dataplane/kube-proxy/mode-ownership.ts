import { isKubeProxyChain, isSharedChain } from '../compare/ownership.ts'
import { isServiceChain } from './chain-names.ts'
import { setNames } from './ipvs/sets.ts'
import { featuresOf, SUPPORTED_VERSIONS } from './versions.ts'

/** The modes between which kube-proxy is switched in place without cleaning up. */
export type SwitchedMode = 'iptables' | 'ipvs'
/** The modes that leave things to each other: nftables keeps to tables of its own, and no other mode touches those. */
export type FlushedMode = SwitchedMode | 'nftables'

const EVERY_TABLE_CANARY = 'KUBE-PROXY-CANARY'

/** Chains, `table name`, that only iptables mode writes (kube-proxy 1.20–1.36), beside those of single Services. */
const IPTABLES_ONLY = new Set([
  'nat KUBE-NODEPORTS',
  'filter KUBE-SERVICES',
  'filter KUBE-EXTERNAL-SERVICES',
  'filter KUBE-NODEPORTS',
])

/** Chains that only IPVS mode writes; nat KUBE-FIREWALL up to 1.24, where it has nothing to do with the kubelet's in filter. */
const IPVS_ONLY = new Set([
  'nat KUBE-NODE-PORT',
  'nat KUBE-LOAD-BALANCER',
  'nat KUBE-FIREWALL',
  'filter KUBE-NODE-PORT',
  'filter KUBE-SOURCE-RANGES-FIREWALL',
  'filter KUBE-IPVS-FILTER',
  'filter KUBE-IPVS-OUT-FILTER',
])

/** Chains that userspace mode writes (up to 1.25). No other mode runs beside it, so in either of them they are left over. */
const USERSPACE_ONLY = new Set([
  ...['nat KUBE-PORTALS-CONTAINER', 'nat KUBE-PORTALS-HOST', 'nat KUBE-NODEPORT-CONTAINER', 'nat KUBE-NODEPORT-HOST'],
  'filter KUBE-NODEPORT-NON-LOCAL',
])

/** Whether a chain is written by this mode of kube-proxy and not by the other, or by userspace mode. */
export function isChainOfModeOnly(mode: SwitchedMode, table: string, chain: string): boolean {
  if (USERSPACE_ONLY.has(`${table} ${chain}`)) return true
  if (mode === 'ipvs') return IPVS_ONLY.has(`${table} ${chain}`)
  if (chain === EVERY_TABLE_CANARY) return true
  return IPTABLES_ONLY.has(`${table} ${chain}`) || (table === 'nat' && isServiceChain(chain))
}

/**
 * Comments of the jumps that a mode puts into built-in chains and the other does not. Jumps with other comments lead to
 * chains that both modes write, and are the same rule in both.
 */
const JUMP_COMMENTS: Record<SwitchedMode, ReadonlySet<string>> = {
  iptables: new Set([
    'kubernetes service portals',
    'kubernetes externally-visible service portals',
    'kubernetes health check service ports',
    'kubernetes load balancer firewall',
  ]),
  ipvs: new Set(['kubernetes health check rules', 'kube-proxy firewall rules', 'kubernetes ipvs access filter']),
}

const USERSPACE_JUMPS = new Set([
  'handle ClusterIPs; NOTE: this must be before the NodePort rules',
  'handle service NodePorts; NOTE: this must be the last rule in the chain',
  'Ensure that non-local NodePort traffic can flow',
])

/** Whether a jump with this comment, out of a built-in chain of this table, is one that only this mode or userspace mode makes. */
export function isJumpOfModeOnly(mode: SwitchedMode, table: string, comment: string): boolean {
  if (USERSPACE_JUMPS.has(comment)) return true
  return table === 'filter' && JUMP_COMMENTS[mode].has(comment)
}

/** Whether a chain is kube-proxy's alone, by whichever mode that is not nftables; what the kubelet writes too is left to it. */
export const isChainOfAnyMode = (table: string, chain: string): boolean =>
  isKubeProxyChain(chain) && !isSharedChain(table, chain)

/** Every set that any version makes; later versions only ever added some. */
const SET_NAMES: ReadonlySet<string> = new Set(
  (['ipv4', 'ipv6'] as const).flatMap((family) => setNames(family, featuresOf(SUPPORTED_VERSIONS.at(-1) ?? ''))),
)

/** Whether IPVS mode makes a set of this name, for either family. */
export const isIpvsModeSet = (name: string): boolean => SET_NAMES.has(name)

/** Whether the set lists addresses with ports that IPVS mode serves (not endpoints, not sources). */
export const isAddressSet = (name: string): boolean =>
  /^KUBE-(6-)?(CLUSTER-IP|EXTERNAL-IP|LOAD-BALANCER)(-LOCAL)?$/.test(name) || /-NODE-PORT-.*SCTP-HAS/.test(name)

/** The protocol whose node ports this set lists, all of them or those with a Local policy. */
export function nodePortSetProtocol(name: string): 'TCP' | 'UDP' | undefined {
  const protocol = /^KUBE-(?:6-)?NODE-PORT-(?:LOCAL-)?(TCP|UDP)$/.exec(name)?.[1]
  return protocol === 'TCP' || protocol === 'UDP' ? protocol : undefined
}
