import { contains } from '../../ip-address.ts'
import { writtenSetText } from '../../nft-addresses.ts'
import type { NftTable } from '../../nft-table.ts'
import type { KubeProxyConfig } from '../config.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import {
  type OriginRecorder,
  type Origins,
  outsideAddresses,
  PolicyOrigins,
  WHOLE_PORT,
} from '../origins.ts'
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

/** A Service port, the names of its chains, who serves it, and where its entries come from. */
interface ServicePortParts {
  port: ServicePort
  chains: Chains
  endpoints: EndpointCategories
  origins: PolicyOrigins
}

const key = (...parts: (string | number)[]): string => parts.join(' . ')

/** Whether an endpoint can serve under a traffic policy: policy Local needs one on this node. */
const isServed = ({ any, local }: EndpointCategories, onlyLocal: boolean): boolean =>
  any && (!onlyLocal || local.length > 0)

/** Of packets that no endpoint may serve: rejected only if the port has no endpoint on any node. */
const refusalVerdict = ({ any }: EndpointCategories): string => (any ? DROP : REJECT)

const addressKey = ({ protocol, port }: ServicePort, address: string): string =>
  key(address, protocol, port)

function writeClusterIPElements(
  builder: NftTableBuilder,
  { port, chains, endpoints, origins }: ServicePortParts,
): void {
  const byAddress = addressKey(port, port.clusterIP)
  builder.member('cluster-ips', port.clusterIP, WHOLE_PORT)
  if (isServed(endpoints, port.internalLocal)) {
    const chain = port.internalLocal ? chains.local : chains.cluster
    // The policy changes where the element leads, but is not why it exists.
    builder.entry('service-ips', byAddress, `goto ${chain}`, ['port', 'internalLocal'])
    return
  }
  const refused = origins.refused('internalLocal')
  builder.entry('no-endpoint-services', byAddress, refusalVerdict(endpoints), refused)
}

/** The elements for external IPs, addresses of load balancers, and the node port. */
function writeOutsideElements(
  builder: NftTableBuilder,
  { port, chains, endpoints, origins }: ServicePortParts,
): void {
  const { any } = endpoints
  const isRefused = !isServed(endpoints, port.externalLocal)
  const without = refusalVerdict(endpoints)
  const refused = origins.refused('externalLocal')
  for (const { address, origin } of outsideAddresses(port)) {
    const byAddress = addressKey(port, address)
    if (any) builder.entry('service-ips', byAddress, `goto ${chains.external}`, [origin])
    if (isRefused) builder.entry('no-endpoint-services', byAddress, without, [origin, ...refused])
    if (port.sourceRanges.length > 0 && origin.list === 'loadBalancerIPs') {
      const from: Origins = [origin, 'sourceRanges']
      builder.entry('firewall-ips', byAddress, `goto ${chains.firewall}`, from)
    }
  }
  if (port.nodePort === 0) return
  const byPort = key(port.protocol, port.nodePort)
  if (any) builder.entry('service-nodeports', byPort, `goto ${chains.external}`, ['nodePort'])
  if (isRefused) builder.entry('no-endpoint-nodeports', byPort, without, ['nodePort', ...refused])
}

function writeExternal(
  builder: NftTableBuilder,
  port: ServicePort,
  chains: Chains,
  serves: boolean,
): void {
  const masquerade = markForMasquerade(builder)
  const add = (text: string, comment?: string) =>
    builder.ruleOf(chains.external, text, ['outside', 'externalLocal'], comment)
  builder.recordChain(chains.external, ['outside'])
  if (!port.externalLocal)
    add(masquerade, builder.proxier.features.nftHairpinSet ? 'masquerade' : undefined)
  else {
    const fromPod = sourceCondition(builder)
    if (fromPod !== undefined) add(`${fromPod} goto ${chains.cluster}`, 'short-circuit pod traffic')
    add(`fib saddr type local ${masquerade}`, 'masquerade local traffic')
    add(`fib saddr type local goto ${chains.cluster}`, 'short-circuit local traffic')
  }
  if (serves) add(`goto ${port.externalLocal ? chains.local : chains.cluster}`)
}

const FIREWALL: Origins = ['loadBalancerIPs', 'sourceRanges']

/**
 * Source ranges are checked before the translation. A request from the node to itself has the load
 * balancer's address as its source.
 */
function writeFirewall(builder: NftTableBuilder, port: ServicePort, chain: string): void {
  const fromNode = port.sourceRanges.some((range) => contains(range, builder.proxier.nodeIP))
  const sources = [...port.sourceRanges, ...(fromNode ? port.loadBalancerIPs : [])]
  builder.recordChain(chain, FIREWALL)
  builder.ruleOf(chain, `${builder.ip} saddr != ${writtenSetText(sources)} drop`, FIREWALL)
}

const asConcat = ({ ip, port }: TrackedEndpoint): string => `${ip} . ${port}`

function writeChoice(
  builder: NftTableBuilder,
  port: ServicePort,
  chain: string,
  endpoints: readonly TrackedEndpoint[],
  originsOf: (endpoint: TrackedEndpoint) => Origins,
): void {
  const { proxier, ip } = builder
  if (port.affinity !== undefined)
    for (const endpoint of endpoints) {
      const name = endpointName(port, endpoint)
      const match = `${ip} saddr @${AFFINITY_PREFIX}${name}`
      builder.ruleOf(chain, `${match} goto endpoint-${name}`, ['affinity', ...originsOf(endpoint)])
    }
  const choice = `numgen random mod ${endpoints.length}`
  const chosen = endpoints.flatMap(originsOf)
  if (proxier.features.nftHairpinSet && port.affinity === undefined) {
    const map = endpoints.map((endpoint, index) => `${index} : ${asConcat(endpoint)}`).join(', ')
    const text = `meta l4proto ${port.protocol} dnat ${ip} to ${choice} map { ${map} }`
    builder.ruleOf(chain, text, chosen)
    return
  }
  const map = endpoints
    .map((endpoint, index) => `${index} : goto endpoint-${endpointName(port, endpoint)}`)
    .join(', ')
  const from = proxier.features.nftHairpinSet ? (['affinity', ...chosen] as const) : chosen
  builder.ruleOf(chain, `${choice} vmap { ${map} }`, from)
}

function writeEndpoint(
  builder: NftTableBuilder,
  port: ServicePort,
  endpoint: TrackedEndpoint,
  from: Origins,
): void {
  const { proxier, ip, address } = builder
  const { ip: own, text } = endpoint
  if (proxier.features.nftHairpinSet) {
    if (endpoint.isLocal)
      builder.member('hairpin-connections', key(own, own, port.protocol, endpoint.port), from)
    if (port.affinity === undefined) return
  }
  const name = endpointName(port, endpoint)
  const chain = `endpoint-${name}`
  const byAffinity: Origins = ['affinity', ...from]
  // Since 1.36 only affinity needs chains of endpoints.
  const fromChain = proxier.features.nftHairpinSet ? byAffinity : from
  builder.recordChain(chain, fromChain)
  if (!proxier.features.nftHairpinSet)
    builder.ruleOf(chain, `${ip} saddr ${own} jump mark-for-masquerade`, from)
  if (port.affinity !== undefined) {
    const set = `${AFFINITY_PREFIX}${name}`
    const options = { flags: ['dynamic', 'timeout'], timeout: port.affinity }
    builder.set(set, address, options, byAffinity)
    builder.ruleOf(chain, `update @${set} { ${ip} saddr }`, byAffinity)
  }
  builder.ruleOf(chain, `meta l4proto ${port.protocol} dnat to ${text}`, fromChain)
}

/** Until 1.35 packets to a ClusterIP are marked in the chain of each Service port. */
function writeMasqueradeOfPort(builder: NftTableBuilder, port: ServicePort, chain: string): void {
  const { features } = builder.proxier
  const senders = masqueradedSenders(builder)
  if (features.nftHairpinSet || senders === undefined) return
  const toPort = features.nftClusterIPPort ? ` ${port.protocol} dport ${port.port}` : ''
  const own = `${builder.ip} daddr ${port.clusterIP}${toPort}`
  const rule = `${own} ${senders ? `${senders} ` : ''}jump mark-for-masquerade`
  builder.ruleOf(chain, rule, ['internalLocal'])
}

/**
 * Writes everything that one Service port adds to the table, since 1.31 (syncProxyRules of
 * pkg/proxy/nftables/proxier.go).
 */
function writeServicePort(builder: NftTableBuilder, port: ServicePort): void {
  const chains = chainsOf(port)
  const endpoints = categorizeEndpoints(port, builder.proxier)
  const { any, cluster, local, reachable } = endpoints
  const origins = new PolicyOrigins(port, endpoints)
  const parts: ServicePortParts = { port, chains, endpoints, origins }
  builder.recordChain(chains.cluster, origins.cluster)
  builder.recordChain(chains.local, origins.local)
  writeClusterIPElements(builder, parts)
  writeOutsideElements(builder, parts)

  if (isServed(endpoints, port.internalLocal))
    writeMasqueradeOfPort(builder, port, port.internalLocal ? chains.local : chains.cluster)
  if (any && isExternallyAccessible(port))
    writeExternal(builder, port, chains, isServed(endpoints, port.externalLocal))
  if (port.sourceRanges.length > 0 && port.loadBalancerIPs.length > 0)
    writeFirewall(builder, port, chains.firewall)
  for (const [chain, chosen, from] of [
    [chains.cluster, cluster, origins.cluster],
    [chains.local, local, origins.local],
  ] as const)
    if (chosen.length > 0)
      writeChoice(builder, port, chain, chosen, (endpoint) => origins.chosen(endpoint, from))
  for (const endpoint of reachable)
    writeEndpoint(builder, port, endpoint, origins.reached(endpoint))
}

/** The defaults of this mode: node ports are served on the node's primary address. */
export const withNftablesDefaults = (config: KubeProxyConfig): KubeProxyConfig =>
  config.nodePortAddresses.length > 0 ? config : { ...config, nodePortAddresses: ['primary'] }

/** The complete table of kube-proxy's nftables mode in one family, since 1.30. */
export function nftablesTable(proxier: ProxierInput, origins?: OriginRecorder): NftTable {
  const builder = new NftTableBuilder(proxier, origins)
  writeStaticChains(builder)
  for (const port of proxier.ports) {
    origins?.begin(port)
    writeServicePort(builder, port)
  }
  return builder.table
}
