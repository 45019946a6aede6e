import { contains, hostLength } from '../../ip-address.ts'
import { categorizeEndpoints, type EndpointCategories } from '../endpoint-categories.ts'
import { servesNodePorts } from '../node-addresses.ts'
import type { Proxier } from '../proxier.ts'
import { commented, rejectTarget, toAddress, toPort } from '../rule-text.ts'
import type { TableBuilder } from '../ruleset-builder.ts'
import { isExternallyAccessible, type ServicePort } from '../service-ports.ts'
import {
  type ChainedEndpoint,
  chained,
  writeBalancing,
  writeEndpointChains,
  writeHealthCheck,
} from './endpoint-rules.ts'

/** Decisions about a Service port that are made before its rules are written. */
interface Plan {
  port: ServicePort
  categories: EndpointCategories
  cluster: string
  local: string
  external: string
  firewall: string
  hasInternal: boolean
  hasExternal: boolean
  usesExternal: boolean
  usesFirewall: boolean
}

function plan(port: ServicePort, proxier: Proxier): Plan {
  const { features } = proxier
  const categories = categorizeEndpoints(port, proxier)
  // In 1.24, which marks packets to drop in nat, traffic for an empty local chain is sent to that chain to be marked.
  const dropsInNat = features.dropsIn === 'nat'
  const hasLocal = categories.local.length > 0 || dropsInNat
  return {
    port,
    categories,
    cluster: `KUBE-SVC-${port.hash}`,
    local: `KUBE-SVL-${port.hash}`,
    external: `KUBE-EXT-${port.hash}`,
    firewall: `KUBE-FW-${port.hash}`,
    hasInternal: categories.any && (!port.internalLocal || hasLocal),
    hasExternal: categories.any && (!port.externalLocal || hasLocal),
    usesExternal: categories.any && isExternallyAccessible(port),
    usesFirewall: categories.any && port.loadBalancerIPs.length > 0 && port.sourceRanges.length > 0,
  }
}

/** The rules in KUBE-SERVICES, KUBE-NODEPORTS and, for ports without endpoints, in the filter table. */
function writeEntryRules(nat: TableBuilder, filter: TableBuilder, proxier: Proxier, plan: Plan): void {
  const { port, categories } = plan
  const { family } = proxier
  const { name, protocol } = port
  const refuse = categories.any
    ? { comment: `${name} has no local endpoints`, target: 'DROP' }
    : { comment: `${name} has no endpoints`, target: rejectTarget(family) }
  const to = (address: string, comment: string) => toAddress(family, address, protocol, comment, port.port)
  const refuseExternal = (match: string) => filter.add('KUBE-EXTERNAL-SERVICES', `${match}-j ${refuse.target}`)

  if (plan.hasInternal) {
    const chain = port.internalLocal ? plan.local : plan.cluster
    nat.add('KUBE-SERVICES', `${to(port.clusterIP, `${name} cluster IP`)}-j ${chain}`)
  } else filter.add('KUBE-SERVICES', `${to(port.clusterIP, refuse.comment)}-j ${refuse.target}`)

  for (const address of port.externalIPs) {
    if (categories.any) nat.add('KUBE-SERVICES', `${to(address, `${name} external IP`)}-j ${plan.external}`)
    if (!plan.hasExternal) refuseExternal(to(address, refuse.comment))
  }
  for (const address of port.loadBalancerIPs) {
    const chain = plan.usesFirewall ? plan.firewall : plan.external
    if (categories.any) nat.add('KUBE-SERVICES', `${to(address, `${name} loadbalancer IP`)}-j ${chain}`)
    if (plan.usesFirewall && proxier.features.dropsIn === 'filter')
      filter.add('KUBE-PROXY-FIREWALL', `${to(address, `${name} traffic not accepted by ${plan.firewall}`)}-j DROP`)
  }
  if (!plan.hasExternal) for (const address of port.loadBalancerIPs) refuseExternal(to(address, refuse.comment))

  if (port.nodePort !== 0 && servesNodePorts(proxier.nodePortAddresses, proxier.features)) {
    if (categories.any) writeNodePort(nat, proxier, plan)
    if (!plan.hasExternal)
      refuseExternal(toPort(protocol, refuse.comment, port.nodePort, '-m addrtype --dst-type LOCAL '))
  }
  writeHealthCheck(filter, port)
}

function writeNodePort(nat: TableBuilder, proxier: Proxier, { port, external }: Plan): void {
  const { config, features } = proxier
  const match = toPort(port.protocol, port.name, port.nodePort)
  if (features.nfacct && config.nfacct && proxier.localhostNodePorts)
    nat.add(
      'KUBE-NODEPORTS',
      `-d 127.0.0.0/8 ${match}-m nfacct --nfacct-name  localhost_nps_accepted_pkts -j ${external}`,
    )
  nat.add('KUBE-NODEPORTS', `${match}-j ${external}`)
}

/** The first rule of the chain for ClusterIP traffic: packets that do not come from a local Pod are masqueraded. */
function writeInternalMasquerade(nat: TableBuilder, proxier: Proxier, plan: Plan): void {
  const { port } = plan
  const { config, detector, family } = proxier
  if (!config.masqueradeAll && !detector) return
  const chain = port.internalLocal ? plan.local : plan.cluster
  const source = config.masqueradeAll ? '' : (detector?.notLocal.source ?? '')
  const incoming = config.masqueradeAll ? '' : (detector?.notLocal.interface ?? '')
  const match = toPort(port.protocol, `${port.name} cluster IP`, port.port)
  nat.add(chain, `${source}-d ${port.clusterIP}${hostLength(family)} ${incoming}${match}-j KUBE-MARK-MASQ`)
}

/** KUBE-EXT-: masquerades, or with policy Local exempts packets from this node from the policy. */
function writeExternalChain(nat: TableBuilder, proxier: Proxier, plan: Plan): void {
  const { port, external, cluster } = plan
  const destinations = `${port.name} external destinations`
  const rules = nat.chain(external)
  if (!port.externalLocal) {
    rules.push({ spec: `${commented(`masquerade traffic for ${destinations}`)}-j KUBE-MARK-MASQ` })
  } else {
    const { detector } = proxier
    const fromNode = '-m addrtype --src-type LOCAL '
    if (detector) {
      const match = `${detector.local.source}${detector.local.interface}`
      rules.push({ spec: `${match}${commented(`pod traffic for ${destinations}`)}-j ${cluster}` })
    }
    rules.push(
      { spec: `${commented(`masquerade LOCAL traffic for ${destinations}`)}${fromNode}-j KUBE-MARK-MASQ` },
      { spec: `${commented(`route LOCAL traffic for ${destinations}`)}${fromNode}-j ${cluster}` },
    )
  }
  if (plan.hasExternal) rules.push({ spec: `-j ${port.externalLocal ? plan.local : cluster}` })
}

/**
 * KUBE-FW-: only packets from the Service's source ranges are passed on. 1.24, which ends the chain with a drop, writes the
 * chain once per load balancer address; later versions write the ranges once and return at the end of the chain.
 */
function writeFirewallChain(nat: TableBuilder, proxier: Proxier, plan: Plan): void {
  const { port, firewall, external } = plan
  const { features, family, nodeIP } = proxier
  const comment = commented(`${port.name} loadbalancer IP`)
  const rules = nat.chain(firewall)
  const isNodeAllowed = port.sourceRanges.some((range) => contains(range, nodeIP))
  // A range of length 0 matches every source, and iptables-save omits it.
  const ranges = port.sourceRanges.map((range) => (range.endsWith('/0') ? '' : `-s ${range} `))
  const own = (address: string) => (isNodeAllowed ? [`-s ${address}${hostLength(family)} `] : [])
  const pass = (sources: string[]) =>
    rules.push(...sources.map((source) => ({ spec: `${source}${comment}-j ${external}` })))
  if (features.dropsIn === 'nat') {
    for (const address of port.loadBalancerIPs) {
      pass([...ranges, ...own(address)])
      rules.push({ spec: `${comment}-j KUBE-MARK-DROP` })
    }
    return
  }
  pass([...ranges, ...port.loadBalancerIPs.flatMap(own)])
  if (features.firewallMarker)
    rules.push({
      spec: `-m comment --comment "other traffic to ${port.name} will be dropped by KUBE-PROXY-FIREWALL"`,
    })
}

function writePolicyChains(nat: TableBuilder, proxier: Proxier, plan: Plan): void {
  const { port, categories } = plan
  const { cluster, local, usesCluster, usesLocal } = categories
  const endpoints = chained(port, categories.reachable)
  const pick = (wanted: EndpointCategories['cluster']): ChainedEndpoint[] => {
    if (wanted === categories.reachable) return endpoints
    const set = new Set(wanted)
    return endpoints.filter(({ endpoint }) => set.has(endpoint))
  }
  const head = `-m comment --comment "${port.name} -> `
  const write = (chain: string, wanted: EndpointCategories['cluster']) =>
    writeBalancing(nat, proxier, port, chain, pick(wanted), (endpoint) =>
      proxier.isLarge ? '' : `${head}${endpoint.text}" `,
    )
  if (usesCluster && cluster.length > 0) write(plan.cluster, cluster)
  if (usesLocal && local.length > 0) write(plan.local, local)
  else if (usesLocal && categories.any && proxier.features.dropsIn === 'nat')
    nat.add(plan.local, `${commented(`${port.name} has no local endpoints`)}-j KUBE-MARK-DROP`)
  writeEndpointChains(nat, proxier, port, endpoints)
}

/**
 * The rules of one Service port in kube-proxy 1.24 and later: KUBE-SVC- for policy Cluster, KUBE-SVL- for policy Local,
 * KUBE-EXT- for traffic from outside, KUBE-FW- for source ranges (pkg/proxy/iptables syncProxyRules).
 */
export function writeExternalServicePort(
  nat: TableBuilder,
  filter: TableBuilder,
  proxier: Proxier,
  port: ServicePort,
): void {
  const decided = plan(port, proxier)
  writeEntryRules(nat, filter, proxier, decided)
  if (!decided.categories.any) return
  if (decided.hasInternal) writeInternalMasquerade(nat, proxier, decided)
  if (decided.usesExternal) writeExternalChain(nat, proxier, decided)
  if (decided.usesFirewall) writeFirewallChain(nat, proxier, decided)
  writePolicyChains(nat, proxier, decided)
}
