// One packet on its whole journey: every place on the nodes that it passes, as it leaves there, and
// what was changed there.

import { printEndpoint } from '../ip-address.ts'
import type { NodeState } from '../node-state.ts'
import { type Flow, receiverOf, type Sighting } from '../trace/flow.ts'
import type { Hook } from '../trace/step.ts'
import type { EndedFlow } from '../trace.ts'
import { type Packet, tracePacket } from '../trace.ts'

/** A place that the packet leaves, in the order of its journey. */
export interface Station {
  /** The node; empty outside of the cluster. */
  node: string
  /**
   * `Pod` and `process`: where it is sent, or arrives. `wire`: between two nodes, or a node and the
   * outside.
   */
  place: 'Pod' | 'process' | 'outside' | 'wire' | 'IPVS' | Hook
  /** At IPVS: the hook at which it takes the packet, as the kernel names it. */
  hook?: 'LOCAL_IN' | 'LOCAL_OUT'
  /** The interface by which it came in or goes out, where a hook knows one. */
  device?: string
  packet: JourneyPacket
  /** What is different from the place before. */
  changed: (keyof JourneyPacket)[]
  /** Conntrack's entry of the connection as it is known by then; absent before the first hook. */
  conntrack?: { original: string; reply: string }
  /** A rule here stops the packet. */
  isStopped?: true
}

export interface JourneyPacket {
  source: string
  /** `10.96.0.10:53` */
  destination: string
  /** `0x4000`, or `0x0` */
  mark: string
}

/**
 * Where Pods are, and the states of other nodes, for the rest of the journey after the first node.
 */
export interface Surroundings {
  /** The node of an address, its own or that of a Pod; undefined if it is neither. */
  nodeOf(address: string): string | undefined
  /** What another node holds; undefined if it is not known. */
  stateOf(node: string): NodeState | undefined
}

/**
 * The journey of the most probable packet of a connection from its sender to where it arrives or is
 * stopped, also on a second node. With `destination`, of the one that arrives there, if one does.
 * Throws as tracePacket does.
 */
export function journeyOf(
  state: NodeState,
  packet: Packet,
  { node, nodeOf, stateOf }: Surroundings & { node: string },
  destination?: string,
): Station[] {
  const ended = chosenFlow(tracePacket(state, packet, { sightings: true }).flows ?? [], destination)
  if (!ended) return []
  const { flow } = ended
  const start: JourneyPacket = {
    source: flow.original.source,
    destination: printEndpoint(flow.original.destination, flow.original.port),
    mark: '0x0',
  }
  const sender = { pod: 'Pod', host: 'process', external: 'outside' } as const
  const stations: Station[] = [
    {
      node: packet.from === 'external' ? '' : node,
      place: sender[packet.from],
      packet: start,
      changed: [],
    },
  ]
  if (packet.from === 'external')
    stations.push({ node: '', place: 'wire', packet: start, changed: [] })
  add(stations, node, ended)
  if (ended.stoppedAt !== undefined) return stations
  const to = nodeOf(receiverOf(flow))
  if (to === node || stations.at(-1)?.place === 'INPUT') return arrived(stations, node)
  const wire = arrival('', 'wire', stations)
  const other = to === undefined ? undefined : stateOf(to)
  if (to === undefined || !other) return [...stations, wire, arrival('', 'outside', stations)]
  stations.push(wire)
  const { source, destination: address, port, protocol } = flow
  const next: Packet = { from: 'external', source, destination: address, port, protocol }
  const second = chosenFlow(tracePacket(other, next, { sightings: true }).flows ?? [])
  if (!second) return stations
  add(stations, to, second)
  return second.stoppedAt === undefined ? arrived(stations, to) : stations
}

function chosenFlow(flows: readonly EndedFlow[], destination?: string): EndedFlow | undefined {
  const wanted = flows.find(
    ({ flow }) => printEndpoint(receiverOf(flow), flow.port) === destination,
  )
  return wanted ?? flows[0]
}

/** Adds the hooks of one node. */
function add(stations: Station[], node: string, ended: EndedFlow): void {
  const { flow, stoppedAt, stoppedByIpvs = false } = ended
  for (const sighting of flow.sightings ?? [])
    stations.push(stationOf(stations, node, flow, sighting))
  // A packet that is stopped does not leave the hook.
  if (stoppedAt === undefined) return
  const { source, destination, port, mark } = flow
  const at = { hook: stoppedAt, byIpvs: stoppedByIpvs, source, destination, port, mark }
  stations.push({ ...stationOf(stations, node, flow, at), isStopped: true })
}

function stationOf(
  stations: readonly Station[],
  node: string,
  flow: Flow,
  sighting: Sighting,
): Station {
  const { hook, byIpvs, source, destination, port, mark, inInterface, outInterface } = sighting
  const packet = {
    source,
    destination: printEndpoint(destination, port),
    mark: `0x${mark.toString(16)}`,
  }
  const device = hook === 'PREROUTING' || hook === 'INPUT' ? inInterface : outInterface
  const { original, tracked } = flow
  const conntrack = {
    original: `${original.source} → ${printEndpoint(original.destination, original.port)}`,
    reply: `${packet.destination} → ${source}`,
  }
  return {
    node,
    place: byIpvs ? 'IPVS' : hook,
    ...(byIpvs && { hook: hook === 'OUTPUT' ? ('LOCAL_OUT' as const) : ('LOCAL_IN' as const) }),
    ...(device !== undefined && !byIpvs && { device }),
    packet,
    changed: changesFrom(stations.at(-1)?.packet, packet),
    ...(tracked && { conntrack }),
  }
}

/** The journey with its end: after INPUT a process of the node, else a Pod. */
function arrived(stations: Station[], node: string): Station[] {
  const end = stations.at(-1)?.place === 'INPUT' ? 'process' : 'Pod'
  return [...stations, arrival(node, end, stations)]
}

/** The place at which it arrives unchanged. */
function arrival(node: string, place: Station['place'], stations: readonly Station[]): Station {
  const { packet } = stations.at(-1) as Station
  // The mark belongs to the packet inside of one kernel.
  return { node, place, packet: { ...packet, mark: '0x0' }, changed: [] }
}

function changesFrom(
  before: JourneyPacket | undefined,
  now: JourneyPacket,
): (keyof JourneyPacket)[] {
  if (!before) return []
  return (['source', 'destination', 'mark'] as const).filter(
    (field) => before[field] !== now[field],
  )
}
