import { asHost, contains } from '../../ip-address.ts'
import {
  type ListedOrigin,
  type Origins,
  type OutsideAddress,
  outsideAddresses,
  PolicyOrigins,
  rangeOrigins,
} from '../origins.ts'
import {
  ANY_SENDER,
  commented,
  fromRange,
  localSender,
  rejectTarget,
  toAddress,
  toPort,
} from '../rule-text.ts'
import {
  categorizeEndpoints,
  type EndpointCategories,
  isExternallyAccessible,
} from '../service-ports.ts'
import {
  chained,
  type PortRules,
  writeBalancing,
  writeEndpointChains,
  writeHealthCheck,
  writeRefusals,
} from './endpoint-rules.ts'

type Plan = ReturnType<typeof planOf>

function planOf(rules: PortRules) {
  const { nat, filter, proxier, port } = rules
  const categories = categorizeEndpoints(port, proxier)
  // In 1.24, which marks packets to drop in nat, traffic for an empty local chain is sent to that
  // chain to be marked.
  const hasLocal = categories.local.length > 0 || proxier.features.dropsIn === 'nat'
  // Without a spread, as in portsOf (service-ports.ts).
  return {
    nat,
    filter,
    proxier,
    port,
    categories,
    origins: new PolicyOrigins(port, categories),
    cluster: `KUBE-SVC-${port.hash}`,
    local: `KUBE-SVL-${port.hash}`,
    external: `KUBE-EXT-${port.hash}`,
    firewall: `KUBE-FW-${port.hash}`,
    hasInternal: categories.any && (!port.internalLocal || hasLocal),
    hasExternal: categories.any && (!port.externalLocal || hasLocal),
    usesFirewall: categories.any && port.loadBalancerIPs.length > 0 && port.sourceRanges.length > 0,
  }
}

const FIREWALL: Origins = ['loadBalancerIPs', 'sourceRanges']

function recordChains({ nat, origins, cluster, local, external, firewall }: Plan): void {
  nat.recordChain(cluster, origins.cluster)
  nat.recordChain(local, origins.local)
  nat.recordChain(external, ['outside'])
  nat.recordChain(firewall, FIREWALL)
}

/**
 * The rules in KUBE-SERVICES, KUBE-NODEPORTS and, for ports without endpoints, in the filter table.
 */
function writeEntryRules(plan: Plan): void {
  const { filter, proxier, port, categories, origins } = plan
  const { name } = port
  const refuse = categories.any
    ? { comment: `${name} has no local endpoints`, target: 'DROP' }
    : { comment: `${name} has no endpoints`, target: rejectTarget(proxier.family) }

  if (plan.hasInternal) {
    const chain = port.internalLocal ? plan.local : plan.cluster
    addServiceJump(plan, port.clusterIP, 'cluster IP', chain, ['internalLocal'])
  } else
    filter.add(
      'KUBE-SERVICES',
      `${toAddress(port.clusterIP, port, refuse.comment)}-j ${refuse.target}`,
      origins.refused('internalLocal'),
    )

  for (const outside of outsideAddresses(port)) writeOutsideAddress(plan, outside)
  if (port.nodePort !== 0 && proxier.servesNodePorts && categories.any) writeNodePort(plan)
  if (!plan.hasExternal)
    writeRefusals(plan, refuse.comment, refuse.target, origins.refused('externalLocal'))
  writeHealthCheck(plan)
}

/** A rule of KUBE-SERVICES that sends packets to an address of the port to one of its chains. */
function addServiceJump(
  { nat, port }: Plan,
  address: string,
  what: string,
  chain: string,
  from: Origins,
): void {
  const match = toAddress(address, port, `${port.name} ${what}`)
  nat.add('KUBE-SERVICES', `${match}-j ${chain}`, from)
}

/** The rules for an external IP, or for a load balancer's address, which may have source ranges. */
function writeOutsideAddress(plan: Plan, { address, origin }: OutsideAddress): void {
  const { filter, proxier, port, external, firewall } = plan
  const isBalanced = origin.list === 'loadBalancerIPs'
  const isFirewalled = isBalanced && plan.usesFirewall
  const from: Origins = isFirewalled ? [origin, 'sourceRanges'] : [origin]
  if (plan.categories.any) {
    const what = isBalanced ? 'loadbalancer IP' : 'external IP'
    addServiceJump(plan, address, what, isFirewalled ? firewall : external, from)
  }
  if (!isFirewalled || proxier.features.dropsIn !== 'filter') return
  const match = toAddress(address, port, `${port.name} traffic not accepted by ${firewall}`)
  filter.add('KUBE-PROXY-FIREWALL', `${match}-j DROP`, from)
}

function writeNodePort({ nat, proxier, port, external }: Plan): void {
  const { config, features } = proxier
  const match = toPort(port.protocol, port.name, port.nodePort)
  if (features.nfacct && config.nfacct && proxier.localhostNodePorts)
    nat.add(
      'KUBE-NODEPORTS',
      `-d 127.0.0.0/8 ${match}-m nfacct --nfacct-name  localhost_nps_accepted_pkts -j ${external}`,
      ['nodePort'],
    )
  nat.add('KUBE-NODEPORTS', `${match}-j ${external}`, ['nodePort'])
}

/**
 * The first rule of the chain for ClusterIP traffic: packets that do not come from a local Pod are
 * masqueraded.
 */
function writeInternalMasquerade({ nat, proxier, port, cluster, local }: Plan): void {
  const { config, detector } = proxier
  if (!config.masqueradeAll && !detector) return
  const sender = config.masqueradeAll || !detector ? ANY_SENDER : localSender(detector, '! ')
  const match = toAddress(port.clusterIP, port, `${port.name} cluster IP`, sender)
  nat.add(port.internalLocal ? local : cluster, `${match}-j KUBE-MARK-MASQ`, ['internalLocal'])
}

/** KUBE-EXT-: masquerades, or with policy Local exempts packets from this node from the policy. */
function writeExternalChain({
  nat,
  proxier,
  port,
  external,
  cluster,
  local,
  hasExternal,
}: Plan): void {
  const add = (spec: string) => nat.add(external, spec, ['outside', 'externalLocal'])
  const destinations = `${port.name} external destinations`
  if (!port.externalLocal)
    add(`${commented(`masquerade traffic for ${destinations}`)}-j KUBE-MARK-MASQ`)
  else {
    const fromNode = '-m addrtype --src-type LOCAL '
    if (proxier.detector) {
      const { source, incoming } = localSender(proxier.detector)
      add(`${source}${incoming}${commented(`pod traffic for ${destinations}`)}-j ${cluster}`)
    }
    add(`${commented(`masquerade LOCAL traffic for ${destinations}`)}${fromNode}-j KUBE-MARK-MASQ`)
    add(`${commented(`route LOCAL traffic for ${destinations}`)}${fromNode}-j ${cluster}`)
  }
  if (hasExternal) add(`-j ${port.externalLocal ? local : cluster}`)
}

/**
 * KUBE-FW-: only packets from the Service's source ranges are passed on. 1.24, which ends the chain
 * with a drop, writes the chain once per load balancer address; later versions write the ranges
 * once and return at the end of the chain.
 */
function writeFirewallChain({ nat, proxier, port, firewall, external }: Plan): void {
  const { features, nodeIP } = proxier
  const comment = commented(`${port.name} loadbalancer IP`)
  const ofNode = rangeOrigins(port.sourceRanges.filter((range) => contains(range, nodeIP)))
  const pass = (source: string, from: Origins) =>
    nat.add(firewall, `${source}${comment}-j ${external}`, from)
  const passRanges = (balancers: Origins) => {
    for (const range of rangeOrigins(port.sourceRanges))
      pass(fromRange(range.value), [range, ...balancers])
  }
  const passNode = (balancer: ListedOrigin) => {
    if (ofNode.length > 0) pass(`-s ${asHost(balancer.value)} `, [balancer, ...ofNode])
  }
  const balancers = port.loadBalancerIPs.map(
    (value) => ({ list: 'loadBalancerIPs', value }) as const,
  )
  if (features.dropsIn === 'nat')
    for (const balancer of balancers) {
      passRanges([balancer])
      passNode(balancer)
      nat.add(firewall, `${comment}-j KUBE-MARK-DROP`, [balancer, 'sourceRanges'])
    }
  else {
    passRanges(['loadBalancerIPs'])
    for (const balancer of balancers) passNode(balancer)
  }
  if (features.firewallMarker)
    nat.add(
      firewall,
      commented(`other traffic to ${port.name} will be dropped by KUBE-PROXY-FIREWALL`).trimEnd(),
      FIREWALL,
    )
}

function writePolicyChains(plan: Plan): void {
  const { nat, proxier, port, categories, origins } = plan
  const { cluster, local, usesCluster, usesLocal } = categories
  const endpoints = chained(port, categories.reachable)
  const write = (chain: string, wanted: EndpointCategories['cluster'], from: Origins) => {
    const chosen = wanted === categories.reachable ? undefined : new Set(wanted)
    const those = chosen ? endpoints.filter(({ endpoint }) => chosen.has(endpoint)) : endpoints
    writeBalancing(
      plan,
      chain,
      those,
      ({ text }) => (proxier.isLarge ? '' : commented(`${port.name} -> ${text}`)),
      (endpoint) => origins.chosen(endpoint, from),
    )
  }
  if (usesCluster && cluster.length > 0) write(plan.cluster, cluster, origins.cluster)
  if (usesLocal && local.length > 0) write(plan.local, local, origins.local)
  else if (usesLocal && categories.any && proxier.features.dropsIn === 'nat') {
    const comment = commented(`${port.name} has no local endpoints`)
    nat.add(plan.local, `${comment}-j KUBE-MARK-DROP`, [...origins.local, 'unready'])
  }
  writeEndpointChains(plan, endpoints, (endpoint) => origins.reached(endpoint))
}

/**
 * The rules of one Service port in kube-proxy 1.24 and later: KUBE-SVC- for policy Cluster,
 * KUBE-SVL- for policy Local, KUBE-EXT- for traffic from outside, KUBE-FW- for source ranges
 * (pkg/proxy/iptables syncProxyRules).
 */
export function writeExternalServicePort(rules: PortRules): void {
  const plan = planOf(rules)
  recordChains(plan)
  writeEntryRules(plan)
  if (!plan.categories.any) return
  if (plan.hasInternal) writeInternalMasquerade(plan)
  if (isExternallyAccessible(rules.port)) writeExternalChain(plan)
  if (plan.usesFirewall) writeFirewallChain(plan)
  writePolicyChains(plan)
}
