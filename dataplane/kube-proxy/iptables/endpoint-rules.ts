import { addressBits, printEndpoint } from '../../ip-address.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import type { Proxier } from '../proxier.ts'
import {
  commented,
  endpointChain,
  probability,
  recent,
  type TableBuilder,
  toAddress,
  toPort,
} from '../ruleset-builder.ts'
import type { ServicePort } from '../service-ports.ts'

/** One Service port, and the tables that its rules are written to. */
export interface PortRules {
  nat: TableBuilder
  filter: TableBuilder
  proxier: Proxier
  port: ServicePort
}

/** An endpoint with the name of its chain, so that the hash is computed once. */
export interface ChainedEndpoint {
  endpoint: TrackedEndpoint
  chain: string
}

export const chained = (port: ServicePort, endpoints: readonly TrackedEndpoint[]): ChainedEndpoint[] =>
  endpoints.map((endpoint) => ({ endpoint, chain: endpointChain(port.name, port.protocol, endpoint.text) }))

/** KUBE-SEP-: marks a packet whose source is the endpoint itself for masquerading, then rewrites the destination. */
export function writeEndpointChains({ nat, proxier, port }: PortRules, endpoints: readonly ChainedEndpoint[]): void {
  const { family } = proxier
  const { protocol } = port
  const comment = proxier.isLarge ? '' : commented(port.name)
  // The parts that all endpoints share are concatenated once: V8 stores every concatenation, for up to a hundred
  // thousand endpoints.
  const mark = `/${addressBits(family)} ${comment}-j KUBE-MARK-MASQ`
  const head = `-p ${protocol} ${comment}`
  const dnat = `-m ${protocol} -j DNAT --to-destination `
  const plain = `${head}${dnat}`
  for (const { endpoint, chain } of endpoints) {
    // An IPv4 address has only one spelling, so the same string can be used.
    const to = family === 'ipv4' ? endpoint.text : printEndpoint(endpoint.ip, endpoint.port)
    const start = port.affinity === undefined ? plain : `${head}${recent(family, chain, '--set')}${dnat}`
    nat.define(chain, [{ spec: `-s ${endpoint.ip}${mark}` }, { spec: start + to }])
  }
}

/** The text after the comment of a balancing rule, by the number of remaining endpoints. */
const tails: string[] = []

function tail(left: number): string {
  tails[left] ??= left === 1 ? '-j ' : `-m statistic --mode random --probability ${probability(left)} -j `
  return tails[left]
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
  let left = endpoints.length
  for (const [index, { endpoint, chain }] of endpoints.entries())
    rules.push({ spec: `${commentOf(endpoint, index, 'balance')}${tail(left--)}${chain}` })
}

/** Rules of the filter table for packets from outside to a Service port without usable endpoints. */
export function writeRefusals({ filter, proxier, port }: PortRules, comment: string, target: string): void {
  const refuse = (match: string) => filter.add('KUBE-EXTERNAL-SERVICES', `${match}-j ${target}`)
  for (const address of [...port.externalIPs, ...port.loadBalancerIPs]) refuse(toAddress(address, port, comment))
  if (port.nodePort !== 0 && proxier.servesNodePorts)
    refuse(toPort(port.protocol, comment, port.nodePort, '-m addrtype --dst-type LOCAL '))
}

/** filter KUBE-NODEPORTS accepts health checks of load balancers, with or without endpoints. */
export function writeHealthCheck({ filter, port }: PortRules): void {
  if (port.healthCheckNodePort === 0) return
  const match = toPort('tcp', `${port.name} health check node port`, port.healthCheckNodePort)
  filter.add('KUBE-NODEPORTS', `${match}-j ACCEPT`)
}
