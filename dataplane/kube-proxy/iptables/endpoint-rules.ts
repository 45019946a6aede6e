import { endpointChain } from '../chain-names.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import { hostLength } from '../ip.ts'
import type { Proxier } from '../proxier.ts'
import { commented, probability, recent } from '../rule-text.ts'
import type { TableBuilder } from '../ruleset-builder.ts'
import type { ServicePort } from '../service-ports.ts'

/** An endpoint with the name of its chain, which is worth computing once only. */
export interface ChainedEndpoint {
  endpoint: TrackedEndpoint
  chain: string
}

export const chained = (port: ServicePort, endpoints: readonly TrackedEndpoint[]): ChainedEndpoint[] =>
  endpoints.map((endpoint) => ({ endpoint, chain: endpointChain(port.name, port.protocol, endpoint.text) }))

/**
 * KUBE-SEP-: marks a packet that returns to its sender for masquerading, then rewrites the destination.
 */
export function writeEndpointChains(
  nat: TableBuilder,
  proxier: Proxier,
  port: ServicePort,
  endpoints: readonly ChainedEndpoint[],
): void {
  const { family } = proxier
  const comment = proxier.isLarge ? '' : commented(port.name)
  const host = hostLength(family)
  for (const { endpoint, chain } of endpoints) {
    const rules = nat.chain(chain)
    const remember = port.affinity === undefined ? '' : recent(family, chain, '--set')
    const destination = family === 'ipv4' ? `${endpoint.ip}:${endpoint.port}` : `[${endpoint.ip}]:${endpoint.port}`
    rules.push(
      { spec: `-s ${endpoint.ip}${host} ${comment}-j KUBE-MARK-MASQ` },
      { spec: `-p ${port.protocol} ${comment}${remember}-m ${port.protocol} -j DNAT --to-destination ${destination}` },
    )
  }
}

/**
 * Balancing: first the endpoint that a client with affinity used before, then each endpoint with the share that
 * spreads evenly, the last without condition.
 * @param commentOf the comment for one endpoint (by position) of a kind of rule; empty for none
 */
export function writeBalancing(
  nat: TableBuilder,
  proxier: Proxier,
  port: ServicePort,
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
  const count = endpoints.length
  for (const [index, { endpoint, chain }] of endpoints.entries()) {
    const share = index < count - 1 ? `-m statistic --mode random --probability ${probability(count - index)} ` : ''
    rules.push({ spec: `${commentOf(endpoint, index, 'balance')}${share}-j ${chain}` })
  }
}
