import { asHost, contains, loopbackRange } from '../../ip-address.ts'
import {
  ANY_SENDER,
  commented,
  fromRange,
  localSender,
  rejectTarget,
  toAddress,
  toPort,
} from '../rule-text.ts'
import { readyEndpoints } from '../service-ports.ts'
import {
  type ChainedEndpoint,
  chained,
  type PortRules,
  writeBalancing,
  writeEndpointChains,
  writeHealthCheck,
  writeRefusals,
} from './endpoint-rules.ts'

type Context = ReturnType<typeof xlbContext>

const xlbContext = (rules: PortRules) => ({
  ...rules,
  service: `KUBE-SVC-${rules.port.hash}`,
  xlb: `KUBE-XLB-${rules.port.hash}`,
  /** The masquerade rules precede the jump (1.20) or are the first rules of the Service's chain (1.23). */
  masqueradeFirst: rules.proxier.features.serviceChains === 'masquerade-first',
})

function writeClusterIP({ nat, proxier, port, service, masqueradeFirst }: Context): void {
  const { config, detector } = proxier
  const match = (sender = ANY_SENDER) =>
    toAddress(port.clusterIP, port, `${port.name} cluster IP`, sender)
  const chain = masqueradeFirst ? 'KUBE-SERVICES' : service
  if (config.masqueradeAll) nat.add(chain, `${match()}-j KUBE-MARK-MASQ`)
  else if (detector) nat.add(chain, `${match(localSender(detector, '! '))}-j KUBE-MARK-MASQ`)
  nat.add('KUBE-SERVICES', `${match()}-j ${service}`)
}

function writeExternalIP(
  { nat, proxier, port, service, xlb, masqueradeFirst }: Context,
  address: string,
): void {
  const { detector } = proxier
  const comment = `${port.name} external IP`
  const match = toAddress(address, port, comment)
  const chain = port.externalLocal ? xlb : service
  if (masqueradeFirst) {
    if (!port.externalLocal) nat.add('KUBE-SERVICES', `${match}-j KUBE-MARK-MASQ`)
    nat.add(
      'KUBE-SERVICES',
      `${match}-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ${chain}`,
    )
    nat.add('KUBE-SERVICES', `${match}-m addrtype --dst-type LOCAL -j ${chain}`)
    return
  }
  if (!port.externalLocal) {
    const notLocal = detector
      ? toAddress(address, port, comment, localSender(detector, '! '))
      : match
    nat.add(service, `${notLocal}-j KUBE-MARK-MASQ`)
  }
  nat.add('KUBE-SERVICES', `${match}-j ${chain}`)
}

/** Each address of the load balancer adds its rules to the one KUBE-FW- chain of the Service port. */
function writeLoadBalancerIP({ nat, proxier, port, service, xlb }: Context, address: string): void {
  const firewall = `KUBE-FW-${port.hash}`
  const what = `${port.name} loadbalancer IP`
  nat.add('KUBE-SERVICES', `${toAddress(address, port, what)}-j ${firewall}`)
  const add = (source: string, target: string) =>
    nat.add(firewall, `${source}${commented(what)}-j ${target}`)
  const chain = port.externalLocal ? xlb : service
  if (!port.externalLocal) add('', 'KUBE-MARK-MASQ')
  if (port.sourceRanges.length === 0) add('', chain)
  for (const range of port.sourceRanges) add(fromRange(range), chain)
  if (port.sourceRanges.some((range) => contains(range, proxier.nodeIP)))
    add(`-s ${asHost(address)} `, chain)
  add('', 'KUBE-MARK-DROP')
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

/** KUBE-XLB-: Pods and the node itself use all endpoints, other clients only those of this node. */
function writeLocalChain(context: Context, local: readonly ChainedEndpoint[]): void {
  const { nat, proxier, port, service, xlb, masqueradeFirst } = context
  const { detector } = proxier
  const fromNode = '-m addrtype --src-type LOCAL '
  if (detector) {
    const redirect = commented(
      'Redirect pods trying to reach external loadbalancer VIP to clusterIP',
    )
    const { source, incoming } = localSender(detector)
    nat.add(xlb, `${source}${incoming}${redirect}-j ${service}`)
  }
  nat.add(
    xlb,
    `${commented(`masquerade LOCAL traffic for ${port.name} LB IP`)}${fromNode}-j KUBE-MARK-MASQ`,
  )
  nat.add(
    xlb,
    `${commented(`route LOCAL traffic for ${port.name} LB IP to service chain`)}${fromNode}-j ${service}`,
  )
  if (local.length === 0) {
    nat.add(xlb, `${commented(`${port.name} has no local endpoints`)}-j KUBE-MARK-DROP`)
    return
  }
  writeBalancing(context, xlb, local, (_endpoint, index, kind) => {
    if (!masqueradeFirst) return proxier.isLarge ? '' : commented(port.name)
    return commented(kind === 'affinity' ? port.name : `Balancing rule ${index} for ${port.name}`)
  })
}

/**
 * The rules of one Service port in kube-proxy 1.20 and 1.23: KUBE-SVC- for all endpoints, KUBE-XLB- for
 * externalTrafficPolicy Local, KUBE-FW- for every load balancer address.
 */
export function writeXlbServicePort(rules: PortRules): void {
  const context = xlbContext(rules)
  const { nat, proxier, port, service, xlb, masqueradeFirst } = context
  const endpoints = chained(port, readyEndpoints(port))
  // The chain is declared before kube-proxy checks for endpoints.
  if (port.externalLocal) nat.chain(xlb)
  const hasNodePort = port.nodePort !== 0 && proxier.servesNodePorts
  // If there is no address for node ports, 1.20 skips the rest of this Service port.
  const isLeft = masqueradeFirst && port.nodePort !== 0 && !hasNodePort
  if (endpoints.length === 0) {
    const [comment, reject] = [`${port.name} has no endpoints`, rejectTarget(proxier.family)]
    rules.filter.add('KUBE-SERVICES', `${toAddress(port.clusterIP, port, comment)}-j ${reject}`)
    writeRefusals(rules, comment, reject)
    if (proxier.features.healthCheckRules && !isLeft) writeHealthCheck(rules)
    return
  }
  nat.chain(service)
  writeClusterIP(context)
  for (const address of port.externalIPs) writeExternalIP(context, address)
  for (const address of port.loadBalancerIPs) writeLoadBalancerIP(context, address)
  if (isLeft) return
  if (hasNodePort) writeNodePort(context)
  if (proxier.features.healthCheckRules) writeHealthCheck(rules)
  writeBalancing(rules, service, endpoints, () => (proxier.isLarge ? '' : commented(port.name)))
  if (port.externalLocal)
    writeLocalChain(
      context,
      endpoints.filter(({ endpoint }) => endpoint.isLocal),
    )
  writeEndpointChains(rules, endpoints)
}
