import { asHost, contains, loopbackRange } from '../../ip-address.ts'
import {
  type EntryOrigin,
  type Origins,
  type OutsideAddress,
  outsideAddresses,
  rangeOrigins,
  WHOLE_PORT,
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

const EXTERNAL_LOCAL: Origins = ['externalLocal']

const xlbContext = (rules: PortRules) => ({
  ...rules,
  service: `KUBE-SVC-${rules.port.hash}`,
  xlb: `KUBE-XLB-${rules.port.hash}`,
  /**
   * The masquerade rules precede the jump (1.20) or are the first rules of the Service's chain
   * (1.23).
   */
  masqueradeFirst: rules.proxier.features.serviceChains === 'masquerade-first',
})

function writeClusterIP({ nat, proxier, port, service, masqueradeFirst }: Context): void {
  const { config, detector } = proxier
  const match = (sender = ANY_SENDER) =>
    toAddress(port.clusterIP, port, `${port.name} cluster IP`, sender)
  const chain = masqueradeFirst ? 'KUBE-SERVICES' : service
  if (config.masqueradeAll) nat.add(chain, `${match()}-j KUBE-MARK-MASQ`, WHOLE_PORT)
  else if (detector)
    nat.add(chain, `${match(localSender(detector, '! '))}-j KUBE-MARK-MASQ`, WHOLE_PORT)
  nat.add('KUBE-SERVICES', `${match()}-j ${service}`, WHOLE_PORT)
}

function writeExternalIP(
  { nat, proxier, port, service, xlb, masqueradeFirst }: Context,
  { address, origin }: OutsideAddress,
): void {
  const { detector } = proxier
  const from: Origins = [origin, 'externalLocal']
  const comment = `${port.name} external IP`
  const match = toAddress(address, port, comment)
  const chain = port.externalLocal ? xlb : service
  if (masqueradeFirst) {
    if (!port.externalLocal) nat.add('KUBE-SERVICES', `${match}-j KUBE-MARK-MASQ`, from)
    nat.add(
      'KUBE-SERVICES',
      `${match}-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ${chain}`,
      from,
    )
    nat.add('KUBE-SERVICES', `${match}-m addrtype --dst-type LOCAL -j ${chain}`, from)
    return
  }
  if (!port.externalLocal) {
    const notLocal = detector
      ? toAddress(address, port, comment, localSender(detector, '! '))
      : match
    nat.add(service, `${notLocal}-j KUBE-MARK-MASQ`, from)
  }
  nat.add('KUBE-SERVICES', `${match}-j ${chain}`, from)
}

/**
 * Each address of the load balancer adds its rules to the one KUBE-FW- chain of the Service port.
 */
function writeLoadBalancerIP(
  { nat, proxier, port, service, xlb }: Context,
  { address, origin }: OutsideAddress,
): void {
  const firewall = `KUBE-FW-${port.hash}`
  const what = `${port.name} loadbalancer IP`
  nat.recordChain(firewall, ['loadBalancerIPs'])
  nat.add('KUBE-SERVICES', `${toAddress(address, port, what)}-j ${firewall}`, [origin])
  const add = (source: string, target: string, ...from: EntryOrigin[]) =>
    nat.add(firewall, `${source}${commented(what)}-j ${target}`, [origin, ...from])
  const chain = port.externalLocal ? xlb : service
  if (!port.externalLocal) add('', 'KUBE-MARK-MASQ')
  if (port.sourceRanges.length === 0) add('', chain, 'externalLocal')
  for (const range of rangeOrigins(port.sourceRanges))
    add(fromRange(range.value), chain, range, 'externalLocal')
  const ofNode = rangeOrigins(port.sourceRanges.filter((range) => contains(range, proxier.nodeIP)))
  if (ofNode.length > 0) add(`-s ${asHost(address)} `, chain, ...ofNode, 'externalLocal')
  add('', 'KUBE-MARK-DROP')
}

function writeNodePort({ nat, proxier, port, service, xlb, masqueradeFirst }: Context): void {
  const match = toPort(port.protocol, port.name, port.nodePort)
  const add = (chain: string, spec: string) => nat.add(chain, spec, ['nodePort', 'externalLocal'])
  if (port.externalLocal) {
    add('KUBE-NODEPORTS', `-s ${loopbackRange(proxier.family)} ${match}-j KUBE-MARK-MASQ`)
    add('KUBE-NODEPORTS', `${match}-j ${xlb}`)
    return
  }
  add(masqueradeFirst ? 'KUBE-NODEPORTS' : service, `${match}-j KUBE-MARK-MASQ`)
  add('KUBE-NODEPORTS', `${match}-j ${service}`)
}

/** KUBE-XLB-: Pods and the node itself use all endpoints, other clients only those of this node. */
function writeLocalChain(context: Context, local: readonly ChainedEndpoint[]): void {
  const { nat, proxier, port, service, xlb, masqueradeFirst } = context
  const { detector } = proxier
  const fromNode = '-m addrtype --src-type LOCAL '
  const add = (spec: string) => nat.add(xlb, spec, EXTERNAL_LOCAL)
  if (detector) {
    const redirect = commented(
      'Redirect pods trying to reach external loadbalancer VIP to clusterIP',
    )
    const { source, incoming } = localSender(detector)
    add(`${source}${incoming}${redirect}-j ${service}`)
  }
  add(`${commented(`masquerade LOCAL traffic for ${port.name} LB IP`)}${fromNode}-j KUBE-MARK-MASQ`)
  add(
    `${commented(`route LOCAL traffic for ${port.name} LB IP to service chain`)}${fromNode}-j ${service}`,
  )
  if (local.length === 0) {
    add(`${commented(`${port.name} has no local endpoints`)}-j KUBE-MARK-DROP`)
    return
  }
  writeBalancing(
    context,
    xlb,
    local,
    (_endpoint, index, kind) => {
      if (!masqueradeFirst) return proxier.isLarge ? '' : commented(port.name)
      return commented(kind === 'affinity' ? port.name : `Balancing rule ${index} for ${port.name}`)
    },
    (endpoint) => [endpoint, 'externalLocal'],
  )
}

function writeServiceChain(context: Context, endpoints: readonly ChainedEndpoint[]): void {
  const { proxier, port, service } = context
  const comment = proxier.isLarge ? '' : commented(port.name)
  // With an internal policy Local alone, 1.23 chooses among the endpoints of this node.
  const from: Origins = port.externalLocal ? WHOLE_PORT : ['internalLocal']
  writeBalancing(
    context,
    service,
    endpoints,
    () => comment,
    (endpoint) => [endpoint, ...from],
  )
}

/** No endpoint is ready, or with an internal policy Local none of this node is. */
function writeRejections(rules: PortRules): void {
  const { filter, proxier, port } = rules
  const [comment, reject] = [`${port.name} has no endpoints`, rejectTarget(proxier.family)]
  const from: Origins = [port.endpoints.some(({ ready }) => ready) ? 'internalLocal' : 'unready']
  filter.add('KUBE-SERVICES', `${toAddress(port.clusterIP, port, comment)}-j ${reject}`, from)
  writeRefusals(rules, comment, reject, from)
}

/**
 * The rules of one Service port in kube-proxy 1.20 and 1.23: KUBE-SVC- for all endpoints, KUBE-XLB-
 * for externalTrafficPolicy Local, KUBE-FW- for every load balancer address.
 */
export function writeXlbServicePort(rules: PortRules): void {
  const context = xlbContext(rules)
  const { nat, proxier, port, service, xlb, masqueradeFirst } = context
  const endpoints = chained(port, readyEndpoints(port))
  // The chain is declared before kube-proxy checks for endpoints.
  if (port.externalLocal) nat.chain(xlb)
  nat.recordChain(xlb, EXTERNAL_LOCAL)
  nat.recordChain(service, WHOLE_PORT)
  const hasNodePort = port.nodePort !== 0 && proxier.servesNodePorts
  // If there is no address for node ports, 1.20 skips the rest of this Service port.
  const isLeft = masqueradeFirst && port.nodePort !== 0 && !hasNodePort
  if (endpoints.length === 0) {
    writeRejections(rules)
    if (proxier.features.healthCheckRules && !isLeft) writeHealthCheck(rules)
    return
  }
  nat.chain(service)
  writeClusterIP(context)
  for (const address of outsideAddresses(port))
    if (address.origin.list === 'externalIPs') writeExternalIP(context, address)
    else writeLoadBalancerIP(context, address)
  if (isLeft) return
  if (hasNodePort) writeNodePort(context)
  if (proxier.features.healthCheckRules) writeHealthCheck(rules)
  writeServiceChain(context, endpoints)
  if (port.externalLocal)
    writeLocalChain(
      context,
      endpoints.filter(({ endpoint }) => endpoint.isLocal),
    )
  writeEndpointChains(rules, endpoints, (endpoint) => [endpoint])
}
