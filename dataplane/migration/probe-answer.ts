import { contains, printEndpoint } from '../ip-address.ts'
import { DUMMY_LINK } from '../kube-proxy/mode-ownership.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import type { Flow } from '../trace/flow.ts'
import { NodeNetwork } from '../trace/node-network.ts'
import { type Loss, type Packet, type Trace, tracePacket } from '../trace.ts'

/**
 * Why a client gets no answer from a Service: its connection is refused, its packets are dropped or
 * never replied to, or they leave the node with the address that it called, to the router.
 */
export type NoAnswer = 'refused' | 'timeout' | 'leaves'

/** Whose address the endpoint sees: the client's, one of the node's, or that of the Service. */
export type SeenClient = 'client' | 'node' | 'service'

/** What happens to new connections of a probe. The shares add up to 1. */
export interface ProbeAnswer {
  /** The share of connections that each endpoint answers, by `ip:port`. */
  endpoints: ReadonlyMap<string, number>
  /** Whose address each endpoint sees. */
  seen: ReadonlyMap<string, SeenClient>
  /** The shares without an answer. */
  none: ReadonlyMap<NoAnswer, number>
  /** The rule, virtual server or circumstance that decides. */
  because: readonly string[]
  /** With several endpoints: `random`, or IPVS's scheduler. */
  balancing?: string
}

/** The addresses of a node by their use. */
interface OwnAddresses {
  links: ReadonlySet<string>
  /** Those of kube-ipvs0. */
  bound: ReadonlySet<string>
  podRanges: readonly string[]
  endpoints: ReadonlySet<string>
}

/** In userspace mode: the endpoints behind each port of kube-proxy's own listeners. */
export type UserspaceEndpoints = ReadonlyMap<number, readonly string[]>

function ownAddresses(objects: ClusterObjects, node: string, { links }: NodeState): OwnAddresses {
  const addressesOf = (isMeant: (name: string) => boolean) =>
    new Set(
      links
        .filter(({ name }) => isMeant(name))
        .flatMap(({ addresses }) => addresses.map(({ address }) => address)),
    )
  return {
    links: addressesOf((name) => name !== DUMMY_LINK),
    bound: addressesOf((name) => name === DUMMY_LINK),
    podRanges: objects.nodes.find(({ name }) => name === node)?.podCIDRs ?? [],
    endpoints: new Set(
      objects.endpointSlices
        .flatMap(({ endpoints }) => endpoints)
        .filter(({ nodeName }) => nodeName === node)
        .flatMap(({ addresses }) => addresses),
    ),
  }
}

/** The end of a part of a probe's connections. */
type ProbeEnd = { endpoint: string; seen: SeenClient } | { none: NoAnswer; why: string }

const isLoopbackSource = (address: string) => contains('127.0.0.0/8', address) || address === '::1'

/**
 * What answers a packet that has left the rules. The reply to a translated packet must come back
 * through this node, because only its conntrack or IPVS entry can restore the address that the
 * client called.
 */
function endOf(flow: Flow, { links, bound, podRanges, endpoints }: OwnAddresses): ProbeEnd {
  const { source, destination, original } = flow
  const isOwn = (address: string) => links.has(address) || isLoopbackSource(address)
  const isPodHere = (address: string) => podRanges.some((range) => contains(range, address))
  if (!flow.translated && !flow.ipvs)
    return isOwn(destination) || bound.has(destination)
      ? { none: 'refused', why: 'no rule translates it; the node itself has no such port' }
      : { none: 'leaves', why: 'no rule translates it: it leaves the node unchanged' }
  // ip_vs_xmit.c (__ip_vs_get_out_rt) stops packets from 127.0.0.0/8, whatever route_localnet is.
  if (flow.ipvs && isLoopbackSource(original.source))
    return { none: 'timeout', why: 'IPVS sends nothing from a loopback address' }
  if (source === destination && !isOwn(destination))
    return { none: 'timeout', why: 'the Pod drops a packet from its own address (martian source)' }
  const isEndpointHere = isOwn(destination) || endpoints.has(destination) || isPodHere(destination)
  if (!isEndpointHere && !isOwn(source) && !isPodHere(source))
    return {
      none: 'timeout',
      why: `${printEndpoint(destination, flow.port)} on another node replies past this node`,
    }
  const seen = isOwn(source) ? 'node' : bound.has(source) ? 'service' : 'client'
  return { endpoint: printEndpoint(destination, flow.port), seen }
}

function addShare<Key>(shares: Map<Key, number>, key: Key, share: number): void {
  shares.set(key, (shares.get(key) ?? 0) + share)
}

/**
 * What clients of one node notice: a function that traces a packet through the node's state. It
 * throws PacketError for a packet that the node cannot have, and CircleError for chains that jump
 * to each other in a cycle.
 */
export function probeAnswers(
  objects: ClusterObjects,
  node: string,
  state: NodeState,
  listeners: UserspaceEndpoints = new Map(),
): (packet: Packet) => ProbeAnswer {
  const own = ownAddresses(objects, node, state)
  const network = new NodeNetwork(state.links, state.routes)
  const options = { matchingOnly: true, sightings: true, network }
  return (packet) => answerOf(tracePacket(state, packet, options), own, listeners)
}

/** The parts of a probe's answer, to which each part of its connections adds. */
interface AnswerParts {
  endpoints: Map<string, number>
  seen: Map<string, SeenClient>
  none: Map<NoAnswer, number>
  because: Set<string>
}

function answerOf(trace: Trace, own: OwnAddresses, listeners: UserspaceEndpoints): ProbeAnswer {
  const parts: AnswerParts = {
    endpoints: new Map(),
    seen: new Map(),
    none: new Map(),
    because: new Set(),
  }
  for (const { flow, stoppedAt } of trace.flows ?? []) {
    if (stoppedAt !== undefined) continue
    const relayed = own.links.has(flow.destination) ? listeners.get(flow.port) : undefined
    if (flow.translated && relayed) addRelayed(flow, relayed, parts)
    else addEnd(flow, endOf(flow, own), parts)
  }
  for (const loss of trace.lost) addLoss(loss, parts)
  const { endpoints, seen, none, because } = parts
  const balancing = endpoints.size > 1 && { balancing: balancingOf(trace) }
  return { endpoints, seen, none, because: [...because], ...balancing }
}

/** Connections that kube-proxy's listener accepts, and relays to each of its endpoints in turn. */
function addRelayed(
  { probability }: Flow,
  relayed: readonly string[],
  { endpoints, seen, none }: AnswerParts,
): void {
  if (relayed.length === 0) addShare(none, 'refused', probability)
  for (const endpoint of relayed) {
    addShare(endpoints, endpoint, probability / relayed.length)
    seen.set(endpoint, 'node')
  }
}

function addEnd(
  { probability }: Flow,
  end: ProbeEnd,
  { endpoints, seen, none, because }: AnswerParts,
): void {
  if ('none' in end) {
    addShare(none, end.none, probability)
    because.add(end.why)
  } else {
    addShare(endpoints, end.endpoint, probability)
    seen.set(end.endpoint, end.seen)
  }
}

/** Connections that a rule or virtual server stops. */
function addLoss(
  { verdict, probability, table, chain, rule, reason }: Loss,
  { none, because }: AnswerParts,
): void {
  addShare(none, verdict === 'reject' ? 'refused' : 'timeout', probability)
  const decider =
    table === 'ipvs' ? `virtual server ${chain}: ${reason}` : `${table} ${chain}: ${rule}`
  because.add(decider)
}

function balancingOf({ steps }: Trace): string {
  const scheduled = steps.find(({ table, verdict }) => table === 'ipvs' && verdict === 'DNAT')
  return /scheduler (\w+)/.exec(scheduled?.reason ?? '')?.[1] ?? 'random'
}
