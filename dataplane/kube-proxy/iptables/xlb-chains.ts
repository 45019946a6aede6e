import { contains, hostLength, loopbackRange } from '../../ip-address.ts'
import { readyEndpoints } from '../endpoint-categories.ts'
import { servesNodePorts } from '../node-addresses.ts'
import type { Proxier } from '../proxier.ts'
import { commented, rejectTarget, toAddress, toPort } from '../rule-text.ts'
import type { TableBuilder } from '../ruleset-builder.ts'
import type { ServicePort } from '../service-ports.ts'
import {
  type ChainedEndpoint,
  chained,
  writeBalancing,
  writeEndpointChains,
  writeHealthCheck,
} from './endpoint-rules.ts'

interface Context {
  nat: TableBuilder
  filter: TableBuilder
  proxier: Proxier
  port: ServicePort
  service: string
  xlb: string
  /** The masquerade rules precede the jump (1.20) or are the first rules of the Service's chain (1.23). */
  masqueradeFirst: boolean
}

/** `-d … ` with a source or interface match around it. */
const around = (match: string, source: string, incoming: string): string => {
  const end = match.indexOf(' -p ') + 1
  return `${source}${match.slice(0, end)}${incoming}${match.slice(end)}`
}

function writeClusterIP({ nat, proxier, port, service, masqueradeFirst }: Context): void {
  const { config, detector, family } = proxier
  const match = toAddress(family, port.clusterIP, port.protocol, `${port.name} cluster IP`, port.port)
  const chain = masqueradeFirst ? 'KUBE-SERVICES' : service
  if (config.masqueradeAll) nat.add(chain, `${match}-j KUBE-MARK-MASQ`)
  else if (detector)
    nat.add(chain, `${around(match, detector.notLocal.source, detector.notLocal.interface)}-j KUBE-MARK-MASQ`)
  nat.add('KUBE-SERVICES', `${match}-j ${service}`)
}

function writeExternalIP({ nat, proxier, port, service, xlb, masqueradeFirst }: Context, address: string): void {
  const { detector, family } = proxier
  const match = toAddress(family, address, port.protocol, `${port.name} external IP`, port.port)
  const chain = port.externalLocal ? xlb : service
  if (masqueradeFirst) {
    if (!port.externalLocal) nat.add('KUBE-SERVICES', `${match}-j KUBE-MARK-MASQ`)
    nat.add('KUBE-SERVICES', `${match}-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ${chain}`)
    nat.add('KUBE-SERVICES', `${match}-m addrtype --dst-type LOCAL -j ${chain}`)
    return
  }
  if (!port.externalLocal) {
    const notLocal = detector ? around(match, detector.notLocal.source, detector.notLocal.interface) : match
    nat.add(service, `${notLocal}-j KUBE-MARK-MASQ`)
  }
  nat.add('KUBE-SERVICES', `${match}-j ${chain}`)
}

/** Each address of the load balancer adds its rules to the one KUBE-FW- chain of the Service port. */
function writeLoadBalancerIP({ nat, proxier, port, service, xlb }: Context, address: string): void {
  const { family, nodeIP } = proxier
  const firewall = `KUBE-FW-${port.hash}`
  const what = `${port.name} loadbalancer IP`
  nat.add('KUBE-SERVICES', `${toAddress(family, address, port.protocol, what, port.port)}-j ${firewall}`)
  const comment = commented(what)
  const chain = port.externalLocal ? xlb : service
  if (!port.externalLocal) nat.add(firewall, `${comment}-j KUBE-MARK-MASQ`)
  if (port.sourceRanges.length === 0) nat.add(firewall, `${comment}-j ${chain}`)
  for (const range of port.sourceRanges)
    nat.add(firewall, `${range.endsWith('/0') ? '' : `-s ${range} `}${comment}-j ${chain}`)
  if (port.sourceRanges.some((range) => contains(range, nodeIP)))
    nat.add(firewall, `-s ${address}${hostLength(family)} ${comment}-j ${chain}`)
  nat.add(firewall, `${comment}-j KUBE-MARK-DROP`)
}

function writeNodePort({ nat, proxier, port, service, xlb, masqueradeFirst }: Context): void {
  const match = toPort(port.protocol, port.name, port.nodePort)
  if (port.externalLocal) {
    nat.add('KUBE-NODEPORTS', `-s ${loopbackRange(proxier.family)} ${match}-j KUBE-MARK-MASQ`)
    nat.add('KUBE-NODEPORTS', `${match}-j ${xlb}`)
    return
  }
  nat.add(masqueradeFirst ? 'KUBE-NODEPORTS' : service, `${match}-j KUBE-MARK-MASQ`)
  nat.add('KUBE-NODEPORTS', `${match}-j ${service}`)
}

/** For a Service without endpoints: a rule in the filter table rejects packets, and nat has no rule. */
function writeRefusals({ filter, proxier, port }: Context): void {
  const { family } = proxier
  const comment = `${port.name} has no endpoints`
  const to = (address: string) =>
    `${toAddress(family, address, port.protocol, comment, port.port)}-j ${rejectTarget(family)}`
  filter.add('KUBE-SERVICES', to(port.clusterIP))
  for (const address of [...port.externalIPs, ...port.loadBalancerIPs])
    filter.add('KUBE-EXTERNAL-SERVICES', to(address))
  if (port.nodePort === 0 || !servesNodePorts(proxier.nodePortAddresses, proxier.features)) return
  const match = toPort(port.protocol, comment, port.nodePort, '-m addrtype --dst-type LOCAL ')
  filter.add('KUBE-EXTERNAL-SERVICES', `${match}-j ${rejectTarget(family)}`)
}

/** KUBE-XLB-: Pods and the node itself use all endpoints, other clients only those of this node. */
function writeLocalChain(
  { nat, proxier, port, service, xlb, masqueradeFirst }: Context,
  local: readonly ChainedEndpoint[],
): void {
  const { detector } = proxier
  const fromNode = '-m addrtype --src-type LOCAL '
  if (detector) {
    const redirect = commented('Redirect pods trying to reach external loadbalancer VIP to clusterIP')
    nat.add(xlb, `${detector.local.source}${detector.local.interface}${redirect}-j ${service}`)
  }
  nat.add(xlb, `${commented(`masquerade LOCAL traffic for ${port.name} LB IP`)}${fromNode}-j KUBE-MARK-MASQ`)
  nat.add(xlb, `${commented(`route LOCAL traffic for ${port.name} LB IP to service chain`)}${fromNode}-j ${service}`)
  if (local.length === 0) {
    nat.add(xlb, `${commented(`${port.name} has no local endpoints`)}-j KUBE-MARK-DROP`)
    return
  }
  writeBalancing(nat, proxier, port, xlb, local, (_endpoint, index, kind) => {
    if (!masqueradeFirst) return proxier.isLarge ? '' : commented(port.name)
    return commented(kind === 'affinity' ? port.name : `Balancing rule ${index} for ${port.name}`)
  })
}

/**
 * The rules of one Service port in kube-proxy 1.20 and 1.23: KUBE-SVC- for all endpoints, KUBE-XLB- for
 * externalTrafficPolicy Local, KUBE-FW- for every load balancer address.
 */
export function writeXlbServicePort(
  nat: TableBuilder,
  filter: TableBuilder,
  proxier: Proxier,
  port: ServicePort,
): void {
  const masqueradeFirst = proxier.features.serviceChains === 'masquerade-first'
  const service = `KUBE-SVC-${port.hash}`
  const xlb = `KUBE-XLB-${port.hash}`
  const context: Context = { nat, filter, proxier, port, service, xlb, masqueradeFirst }
  const endpoints = chained(port, readyEndpoints(port))
  // The chain is declared before kube-proxy checks for endpoints.
  if (port.externalLocal) nat.chain(xlb)
  const hasNodePort = port.nodePort !== 0 && servesNodePorts(proxier.nodePortAddresses, proxier.features)
  // If there is no address for node ports, 1.20 skips the rest of this Service port.
  const isLeft = masqueradeFirst && port.nodePort !== 0 && !hasNodePort
  if (endpoints.length === 0) {
    writeRefusals(context)
    if (proxier.features.healthCheckRules && !isLeft) writeHealthCheck(filter, port)
    return
  }
  nat.chain(service)
  writeClusterIP(context)
  for (const address of port.externalIPs) writeExternalIP(context, address)
  for (const address of port.loadBalancerIPs) writeLoadBalancerIP(context, address)
  if (isLeft) return
  if (hasNodePort) writeNodePort(context)
  if (proxier.features.healthCheckRules) writeHealthCheck(filter, port)
  writeBalancing(nat, proxier, port, service, endpoints, () => (proxier.isLarge ? '' : commented(port.name)))
  if (port.externalLocal)
    writeLocalChain(
      context,
      endpoints.filter(({ endpoint }) => endpoint.isLocal),
    )
  writeEndpointChains(nat, proxier, port, endpoints)
}
