import { idOf } from '../../entry-id.ts'
import {
  KUBE_PROXY_TABLE,
  type NftHook,
  type NftTable,
  nftRuleLine,
  nftTitle,
} from '../../nft-table.ts'
import { shortHash } from '../chain-names.ts'
import type { TrackedEndpoint } from '../endpoints.ts'
import type { OriginRecorder, Origins } from '../origins.ts'
import type { ProxierInput } from '../proxier.ts'
import type { ServicePort } from '../service-ports.ts'

/** Builds the table of one proxier in the syntax of `nft list`. */
export class NftTableBuilder {
  readonly proxier: ProxierInput
  readonly table: NftTable
  /** `ip` or `ip6`, as rules write it. */
  readonly ip: 'ip' | 'ip6'
  readonly address: 'ipv4_addr' | 'ipv6_addr'
  readonly #origins: OriginRecorder | undefined

  /** @param origins records what is added with origins in the current Service port */
  constructor(proxier: ProxierInput, origins?: OriginRecorder) {
    this.proxier = proxier
    this.#origins = origins
    this.ip = proxier.family === 'ipv4' ? 'ip' : 'ip6'
    this.address = proxier.family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
    this.table = {
      family: this.ip,
      name: KUBE_PROXY_TABLE,
      chains: new Map(),
      sets: new Map(),
      maps: new Map(),
    }
  }

  chain(name: string, base?: NftHook): void {
    if (!this.table.chains.has(name))
      this.table.chains.set(name, base ? { base, rules: [] } : { rules: [] })
  }

  rule(chain: string, text: string, comment?: string): void {
    this.chain(chain)
    this.table.chains.get(chain)?.rules.push(comment === undefined ? { text } : { text, comment })
  }

  /** Adds a rule of the current Service port. */
  ruleOf(chain: string, text: string, from: Origins, comment?: string): void {
    this.rule(chain, text, comment)
    this.#record('chain', chain, from, nftRuleLine(text, comment))
  }

  /** Records what a chain comes from, if it is created. */
  recordChain(name: string, from: Origins): void {
    this.#record('chain', name, from)
  }

  set(
    name: string,
    type: string,
    options: { flags?: string[]; timeout?: number } = {},
    from?: Origins,
  ): void {
    const { flags = [], timeout } = options
    const set = { type, flags, elements: new Set<string>() }
    this.table.sets.set(name, timeout === undefined ? set : { ...set, timeout })
    this.#record('set', name, from)
  }

  #record(
    part: 'chain' | 'set' | 'map',
    name: string,
    from: Origins | undefined,
    inner?: string,
  ): void {
    if (!from || !this.#origins) return
    const id = idOf.nft(nftTitle(this.table), part, name)
    this.#origins.record(inner === undefined ? id : `${id}/${inner}`, from)
  }

  map(name: string, type: string): void {
    this.table.maps.set(name, { type, elements: new Map() })
  }

  member(set: string, element: string, from?: Origins): void {
    this.table.sets.get(set)?.elements.add(element)
    this.#record('set', set, from, element)
  }

  entry(map: string, key: string, verdict: string, from: Origins): void {
    this.table.maps.get(map)?.elements.set(key, verdict)
    this.#record('map', map, from, key)
  }
}

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

/**
 * The suffix of the chain names of one Service port, for example
 * `2QRHZV4L-default/kubernetes/tcp/https`.
 */
export const servicePortName = (port: ServicePort): string => hashed(plainName(port))

/**
 * The suffix of the names of one endpoint's chain and affinity set: `…__10.180.0.1/80`, with dots
 * instead of the colons of IPv6.
 */
export function endpointName(port: ServicePort, endpoint: TrackedEndpoint): string {
  const colon = endpoint.text.lastIndexOf(':')
  const address = endpoint.text.slice(0, colon).replace(/[[\]]/g, '').replaceAll(':', '.')
  return hashed(`${plainName(port)}__${address}/${endpoint.text.slice(colon + 1)}`)
}

export const AFFINITY_PREFIX = 'affinity-'

/**
 * Chains of Services and endpoints are the only ones with a slash in their name (pkg/proxy/nftables
 * of every version).
 */
export const isServicePortChain = (chain: string): boolean => chain.includes('/')
