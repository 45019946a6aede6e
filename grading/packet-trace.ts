import type { DifferenceText } from '../dataplane/compare.ts'
import { parseEndpoint, printEndpoint } from '../dataplane/ip-address.ts'
import { stoppingPlace } from '../dataplane/trace/stopping-place.ts'
import {
  CircleError,
  type Packet,
  PacketError,
  type Trace,
  tracePacket,
} from '../dataplane/trace.ts'
import { Trouble } from './failure.ts'
import { type NodeView, stateOf } from './snapshot.ts'

/** The sender of a packet: a Pod or an outside client, by address, or the node itself. */
export type Sender = { pod: string } | { outside: string } | 'node'

/** Where the rules of a node send the first packet of a connection to a Service. */
export interface PacketEnd {
  /** Addresses of the possible backends. */
  backends: string[]
  /** True when the source is replaced on some path (masquerade). */
  masqueraded: boolean
  /** One sentence: the backends, or the place where the packet stops. */
  text: string
}

/** A node's name and state. */
export type NodeTables = Pick<NodeView, 'name' | 'state'>

export interface PacketTarget {
  address: string
  port: number
}

function packetOf(sender: Sender, { address, port }: PacketTarget): Packet {
  const to = { destination: address, port, protocol: 'tcp' } as const
  if (sender === 'node') return { from: 'host', ...to }
  return 'pod' in sender
    ? { from: 'pod', source: sender.pod, ...to }
    : { from: 'external', source: sender.outside, ...to }
}

/** A packet that can't be traced, for example in a circle of jumps. */
class Untraceable extends Trouble {}

/** Traces a packet through the node's state. Throws Trouble when that is not possible. */
export function traceOf(node: NodeTables, sender: Sender, target: PacketTarget): Trace {
  try {
    return tracePacket(stateOf(node), packetOf(sender, target), { matchingOnly: true })
  } catch (error) {
    if (!(error instanceof PacketError || error instanceof CircleError)) throw error
    throw new Untraceable(`on ${node.name} ${error.message}`)
  }
}

/** The end of a traced packet. The result also describes a failed trace. */
export function tracedTo(node: NodeView, sender: Sender, target: PacketTarget): PacketEnd {
  try {
    return endOf(node, packetOf(sender, target), traceOf(node, sender, target))
  } catch (error) {
    if (!(error instanceof Untraceable)) throw error
    return { backends: [], masqueraded: false, text: error.message }
  }
}

function endOf(node: NodeView, packet: Packet, trace: Trace): PacketEnd {
  const { outcomes, lost } = trace
  const masqueraded = outcomes.some((outcome) => outcome.masquerade)
  // A packet that was not translated has not reached a backend, even if it is accepted.
  const backends = outcomes
    .map(({ to }) => parseEndpoint(to)?.address ?? to)
    .filter((to) => to !== packet.destination)
  const stop = stoppingPlace(trace, packet, stateOf(node), ` on ${node.name}`)
  if (stop !== undefined)
    return { backends, masqueraded, text: `the packet ${trace.packet} ${stop}` }
  const share = Math.round(lost.reduce((sum, { probability }) => sum + probability, 0) * 100)
  const losses = lost[0]
    ? `, but ${share} % are stopped by ${lost[0].table} ${lost[0].chain}: ${lost[0].rule}`
    : ''
  const source = masqueraded ? 'with its source replaced' : 'with its source kept'
  const text = `by the rules of ${node.name}, the packet ${trace.packet} goes to ${backends.join(' or ')} ${source}${losses}`
  return { backends, masqueraded, text }
}

/** The command that draws the packet's path. */
export function traceCommand(
  node: string,
  sender: Sender,
  { address, port }: PacketTarget,
): string {
  const from =
    sender === 'node'
      ? 'host'
      : 'pod' in sender
        ? `pod:${sender.pod}`
        : `external:${sender.outside}`
  return `make trace FROM=${from} TO=${printEndpoint(address, port)} NODE=${node}`
}

/** The end of a packet as a line of a finding, for a request without the expected answer. */
export function traceLine(node: NodeView, sender: Sender, target: PacketTarget): DifferenceText[] {
  return [{ kind: 'wrong', text: tracedTo(node, sender, target).text }]
}
