import { canonicalAddress, familyOf, parseEndpoint, printEndpoint } from '../ip-address.ts'
import { Refusal } from '../refusal.ts'

export type Protocol = 'tcp' | 'udp' | 'sctp'

/**
 * The first packet of a new connection. A Pod's packet enters through the Pod's interface on the
 * node, an external one through the node's uplink, and the host's comes from a process of the node.
 * Default of `source`: the address that the host's kernel chooses, or for an external packet the
 * router's.
 */
export interface Packet {
  from: 'pod' | 'host' | 'external'
  source?: string
  destination: string
  port: number
  protocol: Protocol
}

/** A packet that cannot be sent as described; the message shows the expected form. */
export class PacketError extends Refusal {
  override name = 'PacketError'
}

/**
 * Reads a packet from its two descriptions: `from` is `pod:ADDRESS`, `host`, `outside` or
 * `external:ADDRESS`, `to` is `ADDRESS:PORT[/tcp|/udp|/sctp]` (IPv6 in brackets). Throws
 * PacketError.
 */
export function parsePacket(from: string, to: string): Packet {
  const [endpointText = '', protocol = 'tcp', ...rest] = to.split('/')
  const endpoint = parseEndpoint(endpointText)
  if (!endpoint || endpoint.port === 0 || rest.length > 0 || !isProtocol(protocol)) {
    throw new PacketError(
      `"${to}" is not a destination; write it as svc/NAME:80 or as 10.96.0.10:53/udp (tcp, udp or sctp; default tcp)`,
    )
  }
  const packet = { destination: endpoint.address, port: endpoint.port, protocol }
  if (from === 'host') return { from: 'host', ...packet }
  if (from === 'outside') return { from: 'external', ...packet }
  const colon = from.indexOf(':')
  const kind = from.slice(0, Math.max(colon, 0))
  const source = from.slice(colon + 1)
  const family = source.includes('/') ? undefined : familyOf(source)
  if ((kind !== 'pod' && kind !== 'external') || family === undefined) {
    throw new PacketError(
      `"${from}" is not an origin; write it as pod:10.244.1.99, host, outside or external:203.0.113.9`,
    )
  }
  if (family !== familyOf(endpoint.address)) {
    throw new PacketError(
      `"${from}" and "${to}" are of different IP families; give both as IPv4 or both as IPv6`,
    )
  }
  return { from: kind, source: canonicalAddress(source), ...packet }
}

function isProtocol(text: string): text is Protocol {
  return text === 'tcp' || text === 'udp' || text === 'sctp'
}

/** The virtual server that IPVS sent the packet through. */
export interface IpvsOrigin {
  address: string
  port: number
  protocol: Protocol
  method: 'masq' | 'route' | 'tunnel'
}

/**
 * A packet on its path, with the probability of that path and its conntrack state. Flows are
 * immutable.
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
  /** Source and destination before any translation (conntrack's original direction). */
  original: { source: string; destination: string; port: number }
  tracked: boolean
  /** Conntrack's two nat bindings: a nat hook has an effect only while its side is not bound. */
  destinationBound: boolean
  sourceBound: boolean
  /** Translated by netfilter; IPVS sets `ipvs` instead. */
  translated: boolean
  sourceTranslated: boolean
  ipvs?: IpvsOrigin
  /**
   * The real server of direct routing: the frame is sent to it, the header stays as it is
   * (ip_vs_dr_xmit).
   */
  frameTo?: string
  /** The packet returned through the loopback device. */
  looped: boolean
  /** How it left each place so far; absent if the trace does not record it. */
  sightings?: readonly Sighting[]
}

/** The header of a packet as it leaves a hook, or IPVS at that hook. */
export interface Sighting
  extends Pick<Flow, 'source' | 'destination' | 'port' | 'mark' | 'inInterface' | 'outInterface'> {
  hook: 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING'
  byIpvs: boolean
}

/** A flow with its latest sighting, which replaces one of the same place. */
export function sighted(flow: Flow, hook: Sighting['hook'], byIpvs = false): Flow {
  if (!flow.sightings) return flow
  const { source, destination, port, mark, inInterface, outInterface } = flow
  const seen: Sighting = {
    hook,
    byIpvs,
    source,
    destination,
    port,
    mark,
    ...(inInterface !== undefined && { inInterface }),
    ...(outInterface !== undefined && { outInterface }),
  }
  const last = flow.sightings.at(-1)
  const before =
    last?.hook === hook && last.byIpvs === byIpvs ? flow.sightings.slice(0, -1) : flow.sightings
  return { ...flow, sightings: [...before, seen] }
}

/**
 * The machine that gets the packet next, or at last: its destination, but with direct routing the
 * real server.
 */
export const receiverOf = ({ destination, frameTo }: Flow): string => frameTo ?? destination

/** `10.244.1.99 → 10.96.0.10:53/udp` */
export const describeFlow = ({ source, destination, port, protocol }: Flow): string =>
  `${source} → ${printEndpoint(destination, port)}/${protocol}`

/** Merges flows that differ only in their probability. */
export function mergeFlows(flows: Flow[]): Flow[] {
  if (flows.length < 2) return flows
  const merged = new Map<string, Flow>()
  for (const flow of flows) {
    const key = JSON.stringify({ ...flow, probability: 0, sightings: undefined })
    const same = merged.get(key)
    merged.set(key, same ? { ...same, probability: same.probability + flow.probability } : flow)
  }
  return [...merged.values()]
}
