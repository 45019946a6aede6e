import { parseEndpoint } from '../dataplane/ip-address.ts'
import { CircleError, PacketError, type Trace, tracePacket } from '../dataplane/trace.ts'
import type { Difference } from './report-schema.ts'
import type { NodeView } from './snapshot.ts'
import type { WebService } from './web-service.ts'

/** Who sends the packet: a Pod by its address, or the node itself. */
export type Sender = { pod: string } | 'node'

/** Where the rules of a node send the first packet of a connection to a Service. */
export interface PacketEnd {
  /** Addresses of the backends that it may reach. */
  backends: string[]
  /** True when a source of its own choosing replaces the sender's on some way. */
  masqueraded: boolean
  /** One sentence: to whom, or which rule stops it. */
  text: string
}

/** Walks a packet through what the node holds. The end says so, too, when the packet can't be walked. */
export function tracedTo({ state }: NodeView, sender: Sender, { address, port }: WebService): PacketEnd {
  const packet = { destination: address, port, protocol: 'tcp' } as const
  try {
    const from = sender === 'node' ? ({ from: 'host' } as const) : ({ from: 'pod', source: sender.pod } as const)
    return endOf(tracePacket(state, { ...from, ...packet }))
  } catch (error) {
    if (!(error instanceof PacketError || error instanceof CircleError)) throw error
    return { backends: [], masqueraded: false, text: error.message }
  }
}

function endOf({ outcomes, verdict, lost, packet }: Trace): PacketEnd {
  const masqueraded = outcomes.some((outcome) => outcome.masquerade)
  const backends = outcomes.map(({ to }) => parseEndpoint(to)?.address ?? to)
  const [stop] = lost
  const stopped = stop
    ? `${verdict === 'reject' ? 'rejected' : 'dropped'} by ${stop.table} ${stop.chain}: ${stop.rule}`
    : verdict
  const ends = {
    dnat: `goes to ${backends.join(' or ')}${masqueraded ? ' with its source replaced' : ' with its source kept'}`,
    accept: 'goes where it was sent: nothing translates it',
    reject: `is ${stopped}`,
    drop: `is ${stopped}`,
  }
  return { backends, masqueraded, text: `the packet ${packet} ${ends[verdict]}` }
}

/** The end of a packet as a line of a finding, for a request that was not answered as it should. */
export function traceLine(node: NodeView, sender: Sender, service: WebService): Difference[] {
  return [{ kind: 'wrong', text: `by the rules of ${node.name}, ${tracedTo(node, sender, service).text}` }]
}
