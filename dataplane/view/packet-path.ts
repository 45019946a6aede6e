import { idOf } from '../entry-id.ts'
import { printEndpoint } from '../ip-address.ts'
import { KERNEL_MODES, type KubeProxyMode } from '../kube-proxy/config.ts'
import { DUMMY_LINK } from '../kube-proxy/mode-ownership.ts'
import { nftTitle } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import { PredictError, type PredictOptions, predict } from '../predict.ts'
import { normaliseSpec } from '../rule.ts'
import type { Packet } from '../trace/flow.ts'
import {
  actionsAt,
  endsOf,
  isByIpvs,
  legsOf,
  type PathPlace,
  SENDER_SEES,
  type TraceAction,
  type TraceOutcome,
  UNTRANSLATED,
} from '../trace/path.ts'
import type { Hook, TraceStep } from '../trace/step.ts'
import { stoppingPlace } from '../trace/stopping-place.ts'
import { type Trace, tracePacket } from '../trace.ts'
import { journeyOf, type Station, type Surroundings } from './journey.ts'

/** The path of one packet through a node, to be drawn. */
export interface PacketPath {
  /** `10.244.1.7 → 10.96.0.10:53/udp` */
  packet: string
  node: string
  mode: string
  /** False if the rules were predicted for a mode in which the node is not. */
  real: boolean
  /** From where to where it went, in the order of the drawing. */
  legs: [from: PathPlace, to: PathPlace][]
  /** What is between INPUT and OUTPUT. */
  local: 'process' | 'IPVS'
  /** Those that it came to, in the order of the packet. */
  hooks: PathHook[]
  ends: PathEnd[]
  /** The most probable packet on its whole journey; absent where the other nodes are not known. */
  journey?: Station[]
  /**
   * What conntrack remembers of the connection, as a sentence; absent for one that does not get
   * through.
   */
  conntrack?: string
  /**
   * Where it is stopped, in words: the rule, the chain and the consequence for the sender. `rule`
   * is empty where it lacks one.
   */
  stop?: { hook: Hook; table: string; chain: string; rule: string; sentence: string }
}

export interface PathHook {
  hook: Hook
  actions: PathAction[]
}

export interface PathAction extends Omit<TraceAction, 'steps'> {
  /** Ids of the entries of the node that did it (holdings.ts). */
  entries: string[]
  /** Packets that the kernel counted at this rule while a real packet was sent; absent before. */
  counted?: number
  /** The kernel counted what the prediction all but excludes. */
  disagrees?: true
}

export interface PathEnd extends TraceOutcome {
  /** How many of the packets that were really sent ended here, where it is known. */
  counted?: number
}

export interface PathOptions {
  node: string
  mode: string
  real: boolean
  /** The destination is one of a Service: a packet that nothing translates is stuck somewhere. */
  isService: boolean
  /** For the journey. */
  surroundings?: Surroundings | undefined
  /**
   * The endpoint to which the journey goes, if packets can go there; default: the most probable
   * one.
   */
  destination?: string
}

/** The path of a packet through what a node holds. Throws as tracePacket does. */
export function packetPath(state: NodeState, packet: Packet, options: PathOptions): PacketPath {
  const { node, mode, real, isService, surroundings, destination } = options
  const trace = tracePacket(state, packet)
  const hooks = trace.hooks.map((hook) => ({
    hook,
    actions: actionsAt(trace, hook).map(({ steps, ...action }): PathAction => {
      return { ...action, entries: [...new Set(steps.map((step) => entryId(step, state)))] }
    }),
  }))
  const stop =
    trace.outcomes.length === 0 || isService ? stopOf(trace, packet, state, node) : undefined
  const conntrack = rememberedOf(trace, packet)
  return {
    packet: trace.packet,
    node,
    mode,
    real,
    legs: legsOf(trace),
    local: isByIpvs(trace) && trace.hooks[0] !== 'OUTPUT' ? 'IPVS' : 'process',
    hooks,
    ends: endsOf(trace),
    ...(surroundings && {
      journey: journeyOf(state, packet, { ...surroundings, node }, destination),
    }),
    ...(conntrack && { conntrack }),
    ...(stop && { stop }),
  }
}

function stopOf(trace: Trace, packet: Packet, state: NodeState, node: string): PacketPath['stop'] {
  const place = stoppingPlace(trace, packet, state, ` on ${node}`)
  if (place === undefined) return undefined
  const { verdict } = trace
  const then =
    verdict === 'reject' || verdict === 'drop' ? SENDER_SEES[verdict].replace('the', 'The') : ''
  const sentence = `The packet ${place}. ${then === '' ? UNTRANSLATED : `${then}.`}`
  const [by] = trace.outcomes.length === 0 ? trace.lost : []
  if (by) return { hook: by.hook, table: by.table, chain: by.chain, rule: by.rule, sentence }
  // Nothing stops what nothing translates: it is stuck where it last went to a chain of kube-proxy,
  // or at the hook that should take it there.
  const last = trace.steps.findLast(
    ({ hook, target, table }) =>
      hook !== 'POSTROUTING' && target !== undefined && /nat|kube-proxy/.test(table),
  )
  const hook = last?.hook ?? trace.hooks[0] ?? 'PREROUTING'
  return { hook, table: last?.table ?? 'nat', chain: last?.target ?? hook, rule: '', sentence }
}

/** Conntrack alone translates replies back; they meet no nat rule. */
function rememberedOf(
  { outcomes, packet }: Trace,
  { destination, port }: Packet,
): string | undefined {
  const [first] = outcomes
  const to = printEndpoint(destination, port)
  if (!first || (outcomes.length === 1 && first.to === to && !first.masquerade)) return undefined
  const ends = outcomes.length === 1 ? first.to : 'the one endpoint that was chosen'
  return `conntrack remembers ${packet} and ${ends}: replies come from ${to} again, and later packets of the connection meet no nat rule.`
}

/** The id of the entry that a step is about. */
function entryId(
  { table, chain, rule }: TraceStep,
  { iptables, nftables = [], foreignNftables = [] }: NodeState,
): string {
  if (table === 'ipvs') {
    const real = / -r (\S+)/.exec(rule)?.[1]
    return real === undefined ? idOf.virtualServer(chain) : `${idOf.virtualServer(chain)}/${real}`
  }
  if (iptables.has(table)) {
    const id = idOf.chain(table, chain)
    return rule.startsWith('-P ') ? id : `${id}/${normaliseSpec(rule.slice(`-A ${chain} `.length))}`
  }
  const id = idOf.nft(table, 'chain', chain)
  const nft = [...nftables, ...foreignNftables].find((one) => nftTitle(one) === table)
  const comment = nft?.chains.get(chain)?.rules.find(({ text }) => text === rule)?.comment
  if (rule.startsWith('policy ')) return id
  return `${id}/${comment === undefined ? rule : `${rule} comment "${comment}"`}`
}

/**
 * The same packet in every mode that the node's kube-proxy has: the node's own mode first, from
 * what it holds, the others from predictions, with the node's own links and routes. Throws as
 * tracePacket and predict do.
 */
export function pathsInAllModes(
  state: NodeState,
  objects: ClusterObjects,
  packet: Packet,
  own: Omit<PredictOptions, 'mode'> & Omit<PathOptions, 'real'>,
): PacketPath[] {
  const { node, mode, isService, surroundings, destination, ...options } = own
  const common = {
    node,
    isService,
    surroundings,
    ...(destination !== undefined && { destination }),
  }
  const others = KERNEL_MODES.filter((one) => one !== mode).flatMap((other) => {
    const predicted = predictIn(other)
    return predicted ? [packetPath(predicted, packet, { ...common, mode: other, real: false })] : []
  })
  return [packetPath(state, packet, { ...common, mode, real: true }), ...others]

  function predictIn(other: KubeProxyMode): NodeState | undefined {
    try {
      const predicted = predict(objects, { ...options, node, mode: other })
      const links = [...state.links.filter(({ name }) => name !== DUMMY_LINK), ...predicted.links]
      return { ...predicted, links, ...(state.routes && { routes: state.routes }) }
    } catch (error) {
      if (error instanceof PredictError) return undefined
      throw error
    }
  }
}
