import { printEndpoint } from './ip-address.ts'
import type { NodeState } from './node-state.ts'
import { describeFlow, type Flow, type Packet, PacketError, receiverOf } from './trace/flow.ts'
import { KernelPath } from './trace/kernel-path.ts'
import { NodeNetwork } from './trace/node-network.ts'
import { acceptsByPolicy, type Hook, type TraceStep } from './trace/step.ts'

export { type Packet, PacketError, parsePacket } from './trace/flow.ts'
export type { TraceStep } from './trace/step.ts'
export { CircleError } from './trace/walk-chain.ts'

/**
 * A rule that matched, as listed in the JSON of a trace; the counters of these rules would show a
 * real packet.
 */
export type Hop = Pick<
  TraceStep,
  'hook' | 'table' | 'chain' | 'rule' | 'verdict' | 'reason' | 'probability'
>

/** A possible end of a new connection, with its probability. */
export interface Outcome {
  to: string
  probability: number
  masquerade: boolean
}

/** The share of connections that a rule stopped. */
export type Loss = Pick<
  TraceStep,
  'hook' | 'table' | 'chain' | 'rule' | 'reason' | 'probability'
> & {
  verdict: 'drop' | 'reject'
}

/**
 * The probabilities of `outcomes` and `lost` add up to 1. `accept` means that the packet passes to
 * its original destination without a translation. `steps` contains every evaluated rule, matching
 * or not.
 */
export interface Trace {
  hops: Hop[]
  outcomes: Outcome[]
  verdict: 'dnat' | 'accept' | 'reject' | 'drop'
  lost: Loss[]
  packet: string
  /** The hooks that the packet reached, in order. */
  hooks: Hook[]
  steps: TraceStep[]
  /**
   * The packets at their ends, the most probable one first, delivered before stopped; with
   * `sightings` only.
   */
  flows?: readonly EndedFlow[]
}

/** A packet at its end. `stoppedAt`: the hook of the rule that stopped it. */
export interface EndedFlow {
  flow: Flow
  stoppedAt?: Hook
  /** There, IPVS stopped it: its virtual server has no real server that takes the packet. */
  stoppedByIpvs?: boolean
}

export interface TraceOptions {
  /** Do not record rules that do not match: most callers need only the result. */
  matchingOnly?: boolean
  /** Record how each delivered or stopped packet left every place. */
  sightings?: boolean
  /**
   * The network of the state, for callers that trace many packets through one; by default it is
   * made from its links and routes.
   */
  network?: NodeNetwork
}

/**
 * Traces the first packet of a connection through a node's state, as its kernel would process it.
 * Throws PacketError for a packet that the node cannot have (no source address) and CircleError for
 * chains that jump to each other in a cycle.
 */
export function tracePacket(state: NodeState, packet: Packet, options: TraceOptions = {}): Trace {
  const { network = new NodeNetwork(state.links, state.routes) } = options
  const steps: TraceStep[] = []
  const context = { network, ipsets: state.ipsets }
  const path = new KernelPath(state, context, (step) => steps.push(step), options.matchingOnly)
  const flow = { ...enter(packet, network), ...(options.sightings && { sightings: [] }) }
  if (packet.from === 'host') path.output(flow)
  else path.prerouting(flow)
  const outcomes = gather(path.delivered)
  const verdict = traceVerdict(path)
  return {
    hops: steps.filter((step) => step.matched && !acceptsByPolicy(step)).map(asHop),
    outcomes,
    verdict,
    lost: path.lost.map(({ verdict, flow, by: { hook, table, chain, rule, reason } }) => {
      return { verdict, probability: flow.probability, hook, table, chain, rule, reason }
    }),
    packet: describeFlow(flow),
    hooks: [...path.hooks],
    steps,
    ...(options.sightings && { flows: endedFlows(path) }),
  }
}

function endedFlows({ delivered, lost }: KernelPath): EndedFlow[] {
  const likely = (one: EndedFlow, other: EndedFlow) => other.flow.probability - one.flow.probability
  const stopped = lost.map(
    ({ flow, by }): EndedFlow => ({
      flow,
      stoppedAt: by.hook,
      stoppedByIpvs: by.table === 'ipvs',
    }),
  )
  return [...delivered.map((flow): EndedFlow => ({ flow })).sort(likely), ...stopped.sort(likely)]
}

function enter(packet: Packet, network: NodeNetwork): Flow {
  const { from, destination, port, protocol } = packet
  const source =
    packet.source ??
    (from === 'host' ? network.sourceTo(destination) : network.neighbourOutside(destination))
  if (source === undefined) {
    throw new PacketError(
      `the node has no address to reach "${destination}" from; inspect with: ip route get ${destination}`,
    )
  }
  const arrival = from === 'pod' ? network.podInterface(source) : network.routeTo(source)?.device
  return {
    source,
    destination,
    port,
    protocol,
    mark: 0,
    connmark: 0,
    probability: 1,
    ...(from === 'host' ? {} : { inInterface: arrival }),
    original: { source, destination, port },
    tracked: true,
    destinationBound: false,
    sourceBound: false,
    translated: false,
    sourceTranslated: false,
    looped: false,
  }
}

function asHop({ hook, table, chain, rule, verdict, reason, probability }: TraceStep): Hop {
  return { hook, table, chain, rule, verdict, reason, probability }
}

function gather(delivered: readonly Flow[]): Outcome[] {
  const outcomes = new Map<string, Outcome>()
  for (const flow of delivered) {
    const to = printEndpoint(receiverOf(flow), flow.port)
    const key = `${to} ${flow.sourceTranslated}`
    const same = outcomes.get(key)
    const probability = (same?.probability ?? 0) + flow.probability
    outcomes.set(key, { to, probability, masquerade: flow.sourceTranslated })
  }
  return [...outcomes.values()]
}

function traceVerdict({ delivered, lost }: KernelPath): Trace['verdict'] {
  if (delivered.length > 0)
    return delivered.some((flow) => flow.translated || flow.ipvs) ? 'dnat' : 'accept'
  return lost.some(({ verdict }) => verdict === 'reject') ? 'reject' : 'drop'
}

/**
 * The JSON form: hops, outcomes and verdict; `lost` only if a part of the connections is stopped.
 */
export function traceToJson(trace: Trace): object {
  const { hops, outcomes, verdict } = trace
  if (outcomes.length === 0 || trace.lost.length === 0) return { hops, outcomes, verdict }
  const lost = trace.lost.map(({ hook, reason, ...loss }) => loss)
  return { hops, outcomes, verdict, lost }
}
