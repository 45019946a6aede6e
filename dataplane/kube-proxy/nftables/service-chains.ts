import { contains } from '../../ip-address.ts'
import { writtenSetText } from '../../nft-addresses.ts'
import type { NftTable } from '../../nft-table.ts'
import type { KubeProxyConfig } from '../config.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import type { ProxierInput } from '../proxier.ts'
import {
  categorizeEndpoints,
  type EndpointCategories,
  isExternallyAccessible,
  type ServicePort,
} from '../service-ports.ts'
import { AFFINITY_PREFIX, endpointName, NftTableBuilder, servicePortName } from './builder.ts'
import {
  markForMasquerade,
  masqueradedSenders,
  sourceCondition,
  writeStaticChains,
} from './static-chains.ts'

const REJECT = 'goto reject-chain'
const DROP = 'drop'

type Chains = ReturnType<typeof chainsOf>

const chainsOf = (port: ServicePort) => {
  const name = servicePortName(port)
  return {
    cluster: `service-${name}`,
    local: `local-${name}`,
    external: `external-${name}`,
    firewall: `firewall-${name}`,
  }
}

const key = (...parts: (string | number)[]): string => parts.join(' . ')

function writeElements(
  builder: NftTableBuilder,
  port: ServicePort,
  chains: Chains,
  { any, local }: EndpointCategories,
): void {
  const { protocol, clusterIP, nodePort } = port
  const serves = (onlyLocal: boolean) => any && (!onlyLocal || local.length > 0)
  const without = any ? DROP : REJECT
  const byAddress = (address: string) => key(address, protocol, port.port)

  builder.member('cluster-ips', clusterIP)
  if (serves(port.internalLocal))
    builder.entry(
      'service-ips',
      byAddress(clusterIP),
      `goto ${port.internalLocal ? chains.local : chains.cluster}`,
    )
  else builder.entry('no-endpoint-services', byAddress(clusterIP), without)

  for (const address of [...port.externalIPs, ...port.loadBalancerIPs]) {
    if (any) builder.entry('service-ips', byAddress(address), `goto ${chains.external}`)
    if (!serves(port.externalLocal))
      builder.entry('no-endpoint-services', byAddress(address), without)
  }
  if (port.sourceRanges.length > 0)
    for (const address of port.loadBalancerIPs)
      builder.entry('firewall-ips', byAddress(address), `goto ${chains.firewall}`)
  if (nodePort === 0) return
  if (any) builder.entry('service-nodeports', key(protocol, nodePort), `goto ${chains.external}`)
  if (!serves(port.externalLocal))
    builder.entry('no-endpoint-nodeports', key(protocol, nodePort), without)
}

function writeExternal(
  builder: NftTableBuilder,
  port: ServicePort,
  chains: Chains,
  serves: boolean,
): void {
  const masquerade = markForMasquerade(builder)
  if (!port.externalLocal) {
    builder.rule(
      chains.external,
      masquerade,
      builder.proxier.features.nftHairpinSet ? 'masquerade' : undefined,
    )
  } else {
    const fromPod = sourceCondition(builder)
    if (fromPod !== undefined)
      builder.rule(
        chains.external,
        `${fromPod} goto ${chains.cluster}`,
        'short-circuit pod traffic',
      )
    builder.rule(chains.external, `fib saddr type local ${masquerade}`, 'masquerade local traffic')
    builder.rule(
      chains.external,
      `fib saddr type local goto ${chains.cluster}`,
      'short-circuit local traffic',
    )
  }
  if (serves)
    builder.rule(chains.external, `goto ${port.externalLocal ? chains.local : chains.cluster}`)
}

/** Source ranges are checked before the translation. A request from the node to itself has the load balancer's address as its source. */
function writeFirewall(builder: NftTableBuilder, port: ServicePort, chain: string): void {
  const fromNode = port.sourceRanges.some((range) => contains(range, builder.proxier.nodeIP))
  const sources = [...port.sourceRanges, ...(fromNode ? port.loadBalancerIPs : [])]
  builder.rule(chain, `${builder.ip} saddr != ${writtenSetText(sources)} drop`)
}

const asConcat = ({ ip, port }: TrackedEndpoint): string => `${ip} . ${port}`

function writeChoice(
  builder: NftTableBuilder,
  port: ServicePort,
  chain: string,
  endpoints: readonly TrackedEndpoint[],
): void {
  const { proxier, ip } = builder
  if (port.affinity !== undefined)
    for (const endpoint of endpoints) {
      const name = endpointName(port, endpoint)
      builder.rule(chain, `${ip} saddr @${AFFINITY_PREFIX}${name} goto endpoint-${name}`)
    }
  const choice = `numgen random mod ${endpoints.length}`
  if (proxier.features.nftHairpinSet && port.affinity === undefined) {
    const map = endpoints.map((endpoint, index) => `${index} : ${asConcat(endpoint)}`).join(', ')
    builder.rule(chain, `meta l4proto ${port.protocol} dnat ${ip} to ${choice} map { ${map} }`)
    return
  }
  const map = endpoints
    .map((endpoint, index) => `${index} : goto endpoint-${endpointName(port, endpoint)}`)
    .join(', ')
  builder.rule(chain, `${choice} vmap { ${map} }`)
}

function writeEndpoint(
  builder: NftTableBuilder,
  port: ServicePort,
  endpoint: TrackedEndpoint,
): void {
  const { proxier, ip, address } = builder
  const { ip: own, text } = endpoint
  if (proxier.features.nftHairpinSet) {
    if (endpoint.isLocal)
      builder.member('hairpin-connections', key(own, own, port.protocol, endpoint.port))
    if (port.affinity === undefined) return
  }
  const name = endpointName(port, endpoint)
  const chain = `endpoint-${name}`
  if (!proxier.features.nftHairpinSet)
    builder.rule(chain, `${ip} saddr ${own} jump mark-for-masquerade`)
  if (port.affinity !== undefined) {
    const set = `${AFFINITY_PREFIX}${name}`
    builder.set(set, address, { flags: ['dynamic', 'timeout'], timeout: port.affinity })
    builder.rule(chain, `update @${set} { ${ip} saddr }`)
  }
  builder.rule(chain, `meta l4proto ${port.protocol} dnat to ${text}`)
}

/** Writes everything that one Service port adds to the table, since 1.31 (syncProxyRules of pkg/proxy/nftables/proxier.go). */
function writeServicePort(builder: NftTableBuilder, port: ServicePort): void {
  const { proxier } = builder
  const chains = chainsOf(port)
  const endpoints = categorizeEndpoints(port, proxier)
  const { any, cluster, local, reachable } = endpoints
  writeElements(builder, port, chains, endpoints)

  const senders = masqueradedSenders(builder)
  const hasInternal = any && (!port.internalLocal || local.length > 0)
  if (!proxier.features.nftHairpinSet && hasInternal && senders !== undefined) {
    const toPort = proxier.features.nftClusterIPPort ? ` ${port.protocol} dport ${port.port}` : ''
    const own = `${builder.ip} daddr ${port.clusterIP}${toPort}`
    const rule = `${own} ${senders ? `${senders} ` : ''}jump mark-for-masquerade`
    builder.rule(port.internalLocal ? chains.local : chains.cluster, rule)
  }
  if (any && isExternallyAccessible(port))
    writeExternal(builder, port, chains, !port.externalLocal || local.length > 0)
  if (port.sourceRanges.length > 0 && port.loadBalancerIPs.length > 0)
    writeFirewall(builder, port, chains.firewall)
  if (cluster.length > 0) writeChoice(builder, port, chains.cluster, cluster)
  if (local.length > 0) writeChoice(builder, port, chains.local, local)
  for (const endpoint of reachable) writeEndpoint(builder, port, endpoint)
}

/** The defaults of this mode: node ports are served on the node's primary address. */
export const withNftablesDefaults = (config: KubeProxyConfig): KubeProxyConfig =>
  config.nodePortAddresses.length > 0 ? config : { ...config, nodePortAddresses: ['primary'] }

/** The complete table of kube-proxy's nftables mode in one family, since 1.30. */
export function nftablesTable(proxier: ProxierInput): NftTable {
  const builder = new NftTableBuilder(proxier)
  writeStaticChains(builder)
  for (const port of proxier.ports) writeServicePort(builder, port)
  return builder.table
}
