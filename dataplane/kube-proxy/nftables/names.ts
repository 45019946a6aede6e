import type { TrackedEndpoint } from '../endpoints.ts'
import { shortHash } from '../rule-text.ts'
import type { ServicePort } from '../service-ports.ts'

/** nf_tables allows names of 256 bytes; kube-proxy reserves 16 of them for its prefixes. */
const LONGEST = 240

/** `HASH-text`, truncated to the maximum length of a name. */
function hashed(text: string): string {
  const name = `${shortHash(text, 8)}-${text}`
  return name.length > LONGEST ? `${name.slice(0, LONGEST - 3)}...` : name
}

/** `namespace/service/protocol/port`; the unnamed port leaves a slash at the end. */
function plainName({ name, protocol }: ServicePort): string {
  const [service, port = ''] = name.split(':')
  return `${service}/${protocol}/${port}`
}

/** The suffix of the chain names of one Service port, for example `2QRHZV4L-default/kubernetes/tcp/https`. */
export const servicePortName = (port: ServicePort): string => hashed(plainName(port))

/**
 * The suffix of the names of one endpoint's chain and affinity set: `…__10.180.0.1/80`, with dots instead of
 * the colons of IPv6.
 */
export function endpointName(port: ServicePort, endpoint: TrackedEndpoint): string {
  const colon = endpoint.text.lastIndexOf(':')
  const address = endpoint.text.slice(0, colon).replace(/[[\]]/g, '').replaceAll(':', '.')
  return hashed(`${plainName(port)}__${address}/${endpoint.text.slice(colon + 1)}`)
}

export const AFFINITY_PREFIX = 'affinity-'

/** Chains of Services and endpoints are the only ones with a slash in their name (pkg/proxy/nftables of every version). */
export const isServicePortChain = (chain: string): boolean => chain.includes('/')
