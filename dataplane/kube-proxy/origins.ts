import type { TrackedEndpoint } from './endpoints.ts'
import {
  type EndpointCategories,
  isExternallyAccessible,
  type ServicePort,
} from './service-ports.ts'

/** The lists of a Service port of which each value has entries of its own. */
export type AddressList = 'externalIPs' | 'loadBalancerIPs' | 'sourceRanges'

/** One value of a list. */
export interface ListedOrigin {
  list: AddressList
  value: string
}

/** Settings of a Service port, and its node port. */
export type PortSetting =
  | 'nodePort'
  | 'affinity'
  | 'internalLocal'
  | 'externalLocal'
  | 'healthCheckNodePort'

/**
 * What an entry comes from, without which kube-proxy would not write it, or with another text: a
 * setting of its Service port, a value of a list, or an endpoint. The name of a list stands for all
 * of its values together, `outside` for all of the node port, external IPs and addresses of load
 * balancers, `unready` for the lack of a ready endpoint, and `port` for the port as a whole. What
 * the port does not have (a policy that is not Local) does not count.
 */
export type EntryOrigin =
  | PortSetting
  | AddressList
  | 'outside'
  | 'unready'
  | 'port'
  | ListedOrigin
  | TrackedEndpoint

/** An entry comes from all of these; from the port as a whole if there are none. */
export type Origins = readonly EntryOrigin[]

/** Of an entry that exists because the Service port does. */
export const WHOLE_PORT: Origins = []

/** Origins that a Service port gives to one entry. */
export interface PortOrigins {
  port: ServicePort
  from: Origins
}

/**
 * Keeps what the entries of a prediction come from, by their ids (entry-id.ts). The rule builders
 * fill it, if they are given one.
 */
export class OriginRecorder {
  readonly #byId = new Map<string, PortOrigins[]>()
  #port: ServicePort | undefined

  /** From now on, entries are written for this port. */
  begin(port: ServicePort): void {
    this.#port = port
  }

  /** Adds origins in the current port. An entry that several ports write comes from all of them. */
  record(id: string, from: Origins): void {
    if (this.#port) this.add(id, { port: this.#port, from })
  }

  add(id: string, origins: PortOrigins): void {
    const known = this.#byId.get(id)
    if (known) known.push(origins)
    else this.#byId.set(id, [origins])
  }

  /** The origins of an entry; none for what kube-proxy writes for no port. */
  of(id: string): readonly PortOrigins[] {
    return this.#byId.get(id) ?? []
  }
}

/** An address for clients outside. */
export interface OutsideAddress {
  address: string
  origin: ListedOrigin
}

/** External IPs, then addresses of load balancers. */
export const outsideAddresses = (port: ServicePort): OutsideAddress[] =>
  (['externalIPs', 'loadBalancerIPs'] as const).flatMap((list) =>
    port[list].map((address) => ({ address, origin: { list, value: address } })),
  )

/** The ranges of a Service port as origins, such as those that contain an address. */
export const rangeOrigins = (ranges: readonly string[]): ListedOrigin[] =>
  ranges.map((value) => ({ list: 'sourceRanges', value }))

const OUTSIDE: Origins = ['outside']
const INTERNAL_LOCAL: Origins = ['internalLocal']
const EXTERNAL_LOCAL: Origins = ['externalLocal', 'outside']
const UNREADY: Origins = ['unready']

/**
 * The origins of what a Service port has by its traffic policies, since 1.24 (categorizeEndpoints).
 */
export class PolicyOrigins {
  /**
   * Of the chain for policy Cluster: with an internal policy Local, clients outside still need it.
   */
  readonly cluster: Origins
  /** Of the chain for policy Local: either policy is enough. */
  readonly local: Origins
  readonly #categories: EndpointCategories
  readonly #port: ServicePort
  readonly #isOfCluster: (endpoint: TrackedEndpoint) => boolean

  constructor(port: ServicePort, categories: EndpointCategories) {
    const isExternalLocal = port.externalLocal && isExternallyAccessible(port)
    this.#port = port
    this.#categories = categories
    this.cluster = port.internalLocal ? OUTSIDE : WHOLE_PORT
    if (port.internalLocal) this.local = isExternalLocal ? WHOLE_PORT : INTERNAL_LOCAL
    else this.local = EXTERNAL_LOCAL
    const ofCluster = new Set(categories.local.length > 0 ? categories.cluster : [])
    this.#isOfCluster = (endpoint) => categories.local.length === 0 || ofCluster.has(endpoint)
  }

  /**
   * Why no packet to an address of the policy is served: without usable endpoints at all, or
   * without local ones.
   */
  refused(policy: 'internalLocal' | 'externalLocal'): Origins {
    return this.#categories.any ? [policy, 'unready'] : UNREADY
  }

  /** Of a rule that chooses the endpoint, in a chain with these origins. */
  chosen(endpoint: TrackedEndpoint, chain: Origins): Origins {
    return [endpoint, 'unready', ...chain]
  }

  /** Of what a reachable endpoint has by itself, whichever chain leads to it. */
  reached(endpoint: TrackedEndpoint): Origins {
    return this.chosen(endpoint, this.#reachedBy(endpoint))
  }

  #reachedBy(endpoint: TrackedEndpoint): Origins {
    const { local, usesCluster } = this.#categories
    if (this.#isOfCluster(endpoint))
      return this.cluster.length > 0 && local.includes(endpoint) ? WHOLE_PORT : this.cluster
    if (usesCluster) return this.local
    // With policy Cluster it would be one of the others, unless those are ready.
    const isReplaced = !endpoint.ready && this.#port.endpoints.some(({ ready }) => ready)
    return isReplaced ? INTERNAL_LOCAL : WHOLE_PORT
  }
}
