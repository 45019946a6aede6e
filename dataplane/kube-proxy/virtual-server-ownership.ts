import { IPVS_LINK } from '../compare/ownership.ts'
import { printEndpoint } from '../ip-address.ts'
import type { VirtualServer } from '../ipvsadm-save.ts'
import type { NodeState } from '../node-state.ts'
import { isAddressSet, isIpvsModeSet, nodePortSetProtocol } from './mode-ownership.ts'

/** The API server's default range (--service-node-port-range). */
const isNodePort = (port: number) => port >= 30_000 && port <= 32_767

/**
 * The virtual servers that kube-proxy made, told from those that a person made by hand: their address is bound to kube-ipvs0
 * or listed in one of kube-proxy's sets, or they serve a node port on an address of the node.
 */
export function kubeProxyVirtualServers(state: NodeState): VirtualServer[] {
  const bound = new Set<string>()
  const local = new Set<string>()
  for (const link of state.links)
    for (const { address } of link.addresses) (link.name === IPVS_LINK ? bound : local).add(address)
  const listed = new Set<string>()
  const nodePorts = new Set<string>()
  for (const { name, members } of state.ipsets.values()) {
    if (!isIpvsModeSet(name)) continue
    const protocol = nodePortSetProtocol(name)
    if (isAddressSet(name)) for (const member of members) listed.add(member)
    else if (protocol) for (const member of members) nodePorts.add(`${protocol} ${member}`)
    else if (/IPVS-IPS$/.test(name)) for (const member of members) bound.add(member)
  }
  return state.virtualServers.filter(({ protocol, address, port }) => {
    if (protocol === 'FWM') return false
    if (bound.has(address) || listed.has(`${address},${protocol.toLowerCase()}:${port}`)) return true
    return local.has(address) && (nodePorts.has(`${protocol} ${port}`) || isNodePort(port))
  })
}

/**
 * The virtual servers of others that no Service packet meets: on an address of the node, at a port that is no node port and at which no
 * endpoint of a Service listens there (one with the network of the host). kube-proxy in IPVS mode takes them away with its next full sync
 * unless excludeCIDRs names the address (cleanLegacyService). One of a firewall mark takes packets to any address.
 */
export function otherVirtualServers(expected: NodeState, actual: NodeState): Set<VirtualServer> {
  if (actual.virtualServers.length === 0) return new Set()
  const own = new Set(kubeProxyVirtualServers(actual))
  const local = new Set(actual.links.flatMap(({ addresses }) => addresses.map(({ address }) => address)))
  const endpoints = endpointsOf(expected)
  return new Set(
    actual.virtualServers.filter((server) => {
      const { protocol, address, port } = server
      if (protocol === 'FWM' || own.has(server) || !local.has(address)) return false
      return !endpoints.has(`${protocol} ${printEndpoint(address, port)}`)
    }),
  )
}

/** Where Service packets go in the end, by virtual servers or by DNAT rules: `TCP 10.244.1.2:80`. */
function endpointsOf({ virtualServers, iptables }: NodeState): Set<string> {
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
  const option = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service', FWM: '-f' } as const
  return servers
    .map(({ protocol, address, port }) =>
      protocol === 'FWM' ? `-D -f ${address}\n` : `-D ${option[protocol]} ${printEndpoint(address, port)}\n`,
    )
    .join('')
}
