import { printEndpoint } from '../ip-address.ts'
import { serviceOption, type VirtualServer } from '../ipvsadm-save.ts'
import type { NodeState } from '../node-state.ts'
import { isServiceChain } from './chain-names.ts'
import type { KubeProxyMode } from './config.ts'
import { setNames } from './ipvs/sets.ts'

/** The modes whose leftovers flushing removes. */
export type KernelMode = Exclude<KubeProxyMode, 'userspace'>
/**
 * The modes between which kube-proxy is switched in place; nftables has its own tables, which no
 * other mode changes.
 */
export type SwitchedMode = Exclude<KernelMode, 'nftables'>

const EVERY_TABLE_CANARY = 'KUBE-PROXY-CANARY'

/** The dummy interface of IPVS mode that makes every Service address local to the node. */
export const DUMMY_LINK = 'kube-ipvs0'

/**
 * Chains with kube-proxy's prefix that only the kubelet writes, in every table. Source: kubelet
 * since 1.17 (canary) and 1.23 (hint).
 */
const KUBELET_CHAINS = new Set(['KUBE-KUBELET-CANARY', 'KUBE-IPTABLES-HINT'])

/**
 * Chains that kubelet and kube-proxy both write: missing rules are reported, additional ones are
 * not (kubelet up to 1.26: nat KUBE-MARK-DROP and filter KUBE-FIREWALL; later only the latter).
 */
const SHARED_CHAINS = new Set(['nat KUBE-MARK-DROP', 'filter KUBE-FIREWALL'])

/**
 * Whether kube-proxy writes this chain; all other chains belong to other programs (KIND-, DOCKER_,
 * CNI-, ts-, …).
 */
export const isKubeProxyChain = (chain: string): boolean =>
  chain.startsWith('KUBE-') && !KUBELET_CHAINS.has(chain)

/** Whether the kubelet may also have added rules to this chain. */
export const isSharedChain = (table: string, chain: string): boolean =>
  SHARED_CHAINS.has(`${table} ${chain}`)

/**
 * Chains, `table name`, that only iptables mode writes (kube-proxy 1.20–1.36), except those of
 * single Services.
 */
const IPTABLES_ONLY = new Set([
  'nat KUBE-NODEPORTS',
  'filter KUBE-SERVICES',
  'filter KUBE-EXTERNAL-SERVICES',
  'filter KUBE-NODEPORTS',
])

/**
 * Chains that only IPVS mode writes; nat KUBE-FIREWALL up to 1.24, where it is not related to the
 * kubelet's chain in filter.
 */
const IPVS_ONLY = new Set([
  'nat KUBE-NODE-PORT',
  'nat KUBE-LOAD-BALANCER',
  'nat KUBE-FIREWALL',
  'filter KUBE-NODE-PORT',
  'filter KUBE-SOURCE-RANGES-FIREWALL',
  'filter KUBE-IPVS-FILTER',
  'filter KUBE-IPVS-OUT-FILTER',
])

/** Chains that userspace mode writes (up to 1.25). In every other mode they are leftovers. */
const USERSPACE_ONLY = new Set([
  'nat KUBE-PORTALS-CONTAINER',
  'nat KUBE-PORTALS-HOST',
  'nat KUBE-NODEPORT-CONTAINER',
  'nat KUBE-NODEPORT-HOST',
  'filter KUBE-NODEPORT-NON-LOCAL',
])

/**
 * Whether a chain is written by this mode of kube-proxy and not by the other, or by userspace mode.
 */
export function isChainOfModeOnly(mode: SwitchedMode, table: string, chain: string): boolean {
  if (USERSPACE_ONLY.has(`${table} ${chain}`)) return true
  if (mode === 'ipvs') return IPVS_ONLY.has(`${table} ${chain}`)
  if (chain === EVERY_TABLE_CANARY) return true
  return IPTABLES_ONLY.has(`${table} ${chain}`) || (table === 'nat' && isServiceChain(chain))
}

/**
 * Comments of the jumps that only one mode adds to built-in chains; jumps with other comments are
 * equal in both.
 */
const JUMP_COMMENTS: Record<SwitchedMode, ReadonlySet<string>> = {
  iptables: new Set([
    'kubernetes service portals',
    'kubernetes externally-visible service portals',
    'kubernetes health check service ports',
    'kubernetes load balancer firewall',
  ]),
  ipvs: new Set([
    'kubernetes health check rules',
    'kube-proxy firewall rules',
    'kubernetes ipvs access filter',
  ]),
}

const USERSPACE_JUMPS = new Set([
  'handle ClusterIPs; NOTE: this must be before the NodePort rules',
  'handle service NodePorts; NOTE: this must be the last rule in the chain',
  'Ensure that non-local NodePort traffic can flow',
])

/**
 * Whether only this mode or userspace mode creates a jump with this comment in a built-in chain of
 * this table.
 */
export function isJumpOfModeOnly(mode: SwitchedMode, table: string, comment: string): boolean {
  if (USERSPACE_JUMPS.has(comment)) return true
  return table === 'filter' && JUMP_COMMENTS[mode].has(comment)
}

/**
 * Whether only kube-proxy writes a chain, in any mode except nftables; chains that the kubelet also
 * writes are excluded.
 */
export const isChainOfAnyMode = (table: string, chain: string): boolean =>
  isKubeProxyChain(chain) && !isSharedChain(table, chain)

const SET_NAMES: ReadonlySet<string> = new Set([...setNames('ipv4'), ...setNames('ipv6')])

/** Whether IPVS mode creates a set with this name, in either family. */
export const isIpvsModeSet = (name: string): boolean => SET_NAMES.has(name)

/**
 * Whether a port is in the API server's default range of node ports (--service-node-port-range).
 */
export const isNodePort = (port: number) => port >= 30_000 && port <= 32_767

/**
 * The virtual servers that kube-proxy created, not those created manually: their address is bound
 * to kube-ipvs0 or is in one of kube-proxy's sets, or they serve a node port on an address of the
 * node.
 */
export function kubeProxyVirtualServers(state: NodeState): VirtualServer[] {
  const bound = new Set<string>()
  const local = new Set<string>()
  for (const link of state.links)
    for (const { address } of link.addresses)
      (link.name === DUMMY_LINK ? bound : local).add(address)
  const sets = [...state.ipsets.values()].filter(({ name }) => isIpvsModeSet(name))
  const listed = new Set(sets.flatMap(({ members }) => [...members]))
  return state.virtualServers.filter(({ protocol, address, port }) => {
    if (protocol === 'FWM') return false
    const member = `${address},${protocol.toLowerCase()}:${port}`
    if (bound.has(address) || listed.has(address) || listed.has(member)) return true
    return local.has(address) && (listed.has(`${port}`) || isNodePort(port))
  })
}

/**
 * Foreign virtual servers that no packet for a Service reaches: on an address of the node, at a
 * port that is neither a node port nor the port of an endpoint in the host network. In IPVS mode
 * kube-proxy deletes them in its next full sync unless excludeCIDRs contains the address
 * (cleanLegacyService). A virtual server for a firewall mark can receive packets to any address, so
 * it does not count.
 */
export function otherVirtualServers(expected: NodeState, actual: NodeState): Set<VirtualServer> {
  if (actual.virtualServers.length === 0) return new Set()
  const own = new Set(kubeProxyVirtualServers(actual))
  const local = new Set(
    actual.links.flatMap(({ addresses }) => addresses.map(({ address }) => address)),
  )
  const endpoints = finalEndpoints(expected)
  return new Set(
    actual.virtualServers.filter((server) => {
      const { protocol, address, port } = server
      if (protocol === 'FWM' || own.has(server) || !local.has(address)) return false
      return !endpoints.has(`${protocol} ${printEndpoint(address, port)}`)
    }),
  )
}

/**
 * The final destinations of packets for Services, from virtual servers and DNAT rules:
 * `TCP 10.244.1.2:80`.
 */
function finalEndpoints({ virtualServers, iptables }: NodeState): Set<string> {
  const rules = [...(iptables.get('nat')?.values() ?? [])].flatMap((chain) => chain.rules)
  return new Set([
    ...virtualServers.flatMap(({ protocol, realServers }) =>
      realServers.map(({ address, port }) => `${protocol} ${printEndpoint(address, port)}`),
    ),
    ...rules.flatMap(({ spec }) => {
      const [, protocol = '', endpoint = ''] = /-p (\w+) .*--to-destination (\S+)/.exec(spec) ?? []
      return endpoint === '' ? [] : [`${protocol.toUpperCase()} ${endpoint}`]
    }),
  ])
}

/** `-D` lines for `ipvsadm -R`, which reads any of ipvsadm's commands. */
export function printVirtualServerDeletions(servers: readonly VirtualServer[]): string {
  return servers.map((server) => `-D ${serviceOption(server)}\n`).join('')
}
