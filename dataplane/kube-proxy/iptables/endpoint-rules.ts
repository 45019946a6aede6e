import { addressBits, printEndpoint } from '../../ip-address.ts'
import { endpointChain } from '../chain-names.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import { type EntryOrigin, type Origins, outsideAddresses } from '../origins.ts'
import type { ProxierInput } from '../proxier.ts'
import { commented, jumpOfFirst, recent, toAddress, toPort } from '../rule-text.ts'
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

/**
 * KUBE-SEP-: marks a packet whose source is the endpoint itself for masquerading, then rewrites the
 * destination.
 */
export function writeEndpointChains(
  { nat, proxier, port }: PortRules,
  endpoints: readonly ChainedEndpoint[],
  originsOf: (endpoint: TrackedEndpoint) => Origins,
): void {
  const { protocol } = port
  const comment = proxier.isLarge ? '' : commented(port.name)
  // Joined below: of a template V8 keeps the tree of its parts, and beside it the whole text once
  // it has been compared.
  const masquerade = `/${addressBits(proxier.family)} ${comment}-j KUBE-MARK-MASQ`
  const match = `-p ${protocol} ${comment}`
  const dnat = `-m ${protocol} -j DNAT --to-destination `
  const translateTo = `${match}${dnat}`
  for (const { endpoint, chain } of endpoints) {
    const destination = proxier.features.canonicalEndpointIPs
      ? endpoint.text
      : printEndpoint(endpoint.ip, endpoint.port)
    const hairpin = ['-s ', endpoint.ip, masquerade].join('')
    const translate =
      port.affinity === undefined
        ? [translateTo, destination].join('')
        : `${match}${recent(proxier.family, chain, '--set')}${dnat}${destination}`
    nat.define(chain, [{ spec: hairpin }, { spec: translate }])
    if (!nat.isRecorded) continue
    const from = originsOf(endpoint)
    nat.recordChain(chain, from)
    nat.recordRule(chain, hairpin, from)
    nat.recordRule(chain, translate, ['affinity', ...from])
  }
}

/**
 * Balancing: first the endpoint that a client with affinity used before, then each endpoint with
 * the probability that results in equal shares, the last one without a condition.
 * @param commentOf the comment for one endpoint (by position) of a kind of rule; empty for none
 * @param originsOf what the rules that choose an endpoint come from
 */
export function writeBalancing(
  { nat, proxier, port }: PortRules,
  from: string,
  endpoints: readonly ChainedEndpoint[],
  commentOf: (endpoint: TrackedEndpoint, index: number, kind: 'affinity' | 'balance') => string,
  originsOf: (endpoint: TrackedEndpoint) => Origins,
): void {
  const rules = nat.chain(from)
  if (port.affinity !== undefined)
    for (const [index, { endpoint, chain }] of endpoints.entries()) {
      const match = recent(proxier.family, chain, `--rcheck --seconds ${port.affinity} --reap`)
      const spec = `${commentOf(endpoint, index, 'affinity')}${match}-j ${chain}`
      rules.push({ spec })
      if (nat.isRecorded) nat.recordRule(from, spec, ['affinity', ...originsOf(endpoint)])
    }
  for (const [index, { endpoint, chain }] of endpoints.entries()) {
    const share = jumpOfFirst(endpoints.length - index)
    const spec = `${commentOf(endpoint, index, 'balance')}${share}${chain}`
    rules.push({ spec })
    if (nat.isRecorded) nat.recordRule(from, spec, originsOf(endpoint))
  }
}

/**
 * Rules of the filter table for packets from outside to a Service port without usable endpoints.
 * @param from why it has none
 */
export function writeRefusals(
  { filter, proxier, port }: PortRules,
  comment: string,
  target: string,
  from: Origins,
): void {
  const refuse = (match: string, origin: EntryOrigin) =>
    filter.add('KUBE-EXTERNAL-SERVICES', `${match}-j ${target}`, [origin, ...from])
  for (const { address, origin } of outsideAddresses(port))
    refuse(toAddress(address, port, comment), origin)
  if (port.nodePort !== 0 && proxier.servesNodePorts)
    refuse(
      toPort(port.protocol, comment, port.nodePort, '-m addrtype --dst-type LOCAL '),
      'nodePort',
    )
}

/** filter KUBE-NODEPORTS accepts health checks of load balancers, with or without endpoints. */
export function writeHealthCheck({ filter, port }: PortRules): void {
  if (port.healthCheckNodePort === 0) return
  const match = toPort('tcp', `${port.name} health check node port`, port.healthCheckNodePort)
  filter.add('KUBE-NODEPORTS', `${match}-j ACCEPT`, ['healthCheckNodePort'])
}
