import { printEndpoint } from '../ip-address.ts'
import type { Protocol } from './packet.ts'

/** The virtual server that IPVS sent the packet through. */
export interface IpvsOrigin {
  address: string
  port: number
  protocol: Protocol
  method: 'masq' | 'route' | 'tunnel'
}

/**
 * A packet on its way, with the chance that it came this way and what conntrack knows of it. Flows are never changed,
 * only copied.
 */
export interface Flow {
  source: string
  destination: string
  port: number
  protocol: Protocol
  mark: number
  connmark: number
  probability: number
  inInterface?: string
  outInterface?: string
  /** Where the packet was sent to and came from before any translation (conntrack's original direction). */
  original: { source: string; destination: string; port: number }
  tracked: boolean
  /** Conntrack's two nat bindings: a nat hook is consulted only while its side is not bound yet. */
  destinationBound: boolean
  sourceBound: boolean
  /** Translated by netfilter; IPVS sets `ipvs` instead. */
  translated: boolean
  sourceTranslated: boolean
  ipvs?: IpvsOrigin
  /** Came back in through the loopback device after it had left. */
  looped: boolean
}

const descriptions = new WeakMap<Flow, string>()

/** `10.244.1.99 → 10.96.0.10:53/udp` */
export function describeFlow(flow: Flow): string {
  const known = descriptions.get(flow)
  if (known !== undefined) return known
  const description = describe(flow)
  descriptions.set(flow, description)
  return description
}

function describe(flow: Flow): string {
  return `${flow.source} → ${printEndpoint(flow.destination, flow.port)}/${flow.protocol}`
}

/** Makes one flow of those that differ by nothing but their probability. */
export function mergeFlows(flows: Flow[]): Flow[] {
  if (flows.length < 2) return flows
  const merged = new Map<string, Flow>()
  for (const flow of flows) {
    const key = JSON.stringify({ ...flow, probability: 0 })
    const same = merged.get(key)
    merged.set(key, same ? { ...same, probability: same.probability + flow.probability } : flow)
  }
  return [...merged.values()]
}
