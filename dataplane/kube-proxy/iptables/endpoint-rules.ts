import { asHost, printEndpoint } from '../../ip-address.ts'
import { endpointChain } from '../chain-names.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import type { ProxierInput } from '../proxier.ts'
import { commented, firstOf, recent, toAddress, toPort } from '../rule-text.ts'
import type { TableBuilder } from '../ruleset-builder.ts'
import type { ServicePort } from '../service-ports.ts'

/** One Service port, and the tables that its rules are written to. */
export interface PortRules {
  nat: TableBuilder
  filter: TableBuilder
  proxier: ProxierInput
  port: ServicePort
}

/** An endpoint with the name of its chain, so that the hash is computed once. */
export interface ChainedEndpoint {
  endpoint: TrackedEndpoint
  chain: string
}

export const chained = (
  port: ServicePort,
  endpoints: readonly TrackedEndpoint[],
): ChainedEndpoint[] =>
  endpoints.map((endpoint) => ({
    endpoint,
    chain: endpointChain(port.name, port.protocol, endpoint.text),
  }))

/** KUBE-SEP-: marks a packet whose source is the endpoint itself for masquerading, then rewrites the destination. */
export function writeEndpointChains(
  { nat, proxier, port }: PortRules,
  endpoints: readonly ChainedEndpoint[],
): void {
  const { protocol } = port
  const comment = proxier.isLarge ? '' : commented(port.name)
  // The parts that are equal for all endpoints are shared texts: V8 keeps a joined text as a tree of its parts.
  const masquerade = ` ${comment}-j KUBE-MARK-MASQ`
  const match = `-p ${protocol} ${comment}`
  const dnat = `-m ${protocol} -j DNAT --to-destination `
  for (const { endpoint, chain } of endpoints) {
    const remember = port.affinity === undefined ? '' : recent(proxier.family, chain, '--set')
    const destination = printEndpoint(endpoint.ip, endpoint.port)
    nat.define(chain, [
      { spec: `-s ${asHost(endpoint.ip)}${masquerade}` },
      { spec: `${match}${remember}${dnat}${destination}` },
    ])
  }
}

/**
 * Balancing: first the endpoint that a client with affinity used before, then each endpoint with the probability
 * that results in equal shares, the last one without a condition.
 * @param commentOf the comment for one endpoint (by position) of a kind of rule; empty for none
 */
export function writeBalancing(
  { nat, proxier, port }: PortRules,
  from: string,
  endpoints: readonly ChainedEndpoint[],
  commentOf: (endpoint: TrackedEndpoint, index: number, kind: 'affinity' | 'balance') => string,
): void {
  const rules = nat.chain(from)
  if (port.affinity !== undefined)
    for (const [index, { endpoint, chain }] of endpoints.entries()) {
      const match = recent(proxier.family, chain, `--rcheck --seconds ${port.affinity} --reap`)
      rules.push({ spec: `${commentOf(endpoint, index, 'affinity')}${match}-j ${chain}` })
    }
  for (const [index, { endpoint, chain }] of endpoints.entries())
    rules.push({
      spec: `${commentOf(endpoint, index, 'balance')}${firstOf(endpoints.length - index)}-j ${chain}`,
    })
}

/** Rules of the filter table for packets from outside to a Service port without usable endpoints. */
export function writeRefusals(
  { filter, proxier, port }: PortRules,
  comment: string,
  target: string,
): void {
  const refuse = (match: string) => filter.add('KUBE-EXTERNAL-SERVICES', `${match}-j ${target}`)
  for (const address of [...port.externalIPs, ...port.loadBalancerIPs])
    refuse(toAddress(address, port, comment))
  if (port.nodePort !== 0 && proxier.servesNodePorts)
    refuse(toPort(port.protocol, comment, port.nodePort, '-m addrtype --dst-type LOCAL '))
}

/** filter KUBE-NODEPORTS accepts health checks of load balancers, with or without endpoints. */
export function writeHealthCheck({ filter, port }: PortRules): void {
  if (port.healthCheckNodePort === 0) return
  const match = toPort('tcp', `${port.name} health check node port`, port.healthCheckNodePort)
  filter.add('KUBE-NODEPORTS', `${match}-j ACCEPT`)
}
