import { groupBy } from '../compare/finding.ts'
import { printEndpoint } from '../ip-address.ts'
import type { KubeProxyMode } from '../kube-proxy/config.ts'
import { DUMMY_LINK } from '../kube-proxy/mode-ownership.ts'
import { nftTitle } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import { PredictError, type PredictOptions, predict } from '../predict.ts'
import { normaliseSpec } from '../rule.ts'
import type { Packet } from '../trace/flow.ts'
import { acceptsByPolicy, type Hook, type Step } from '../trace/step.ts'
import { stoppingPlace } from '../trace/stopping-place.ts'
import { type Trace, tracePacket } from '../trace.ts'
import { entriesOf, idOf, type NodeHoldings } from './holdings.ts'

/** A place on a packet's path through a node: one of the five hooks, or a step between them. */
export type Place = Hook | 'in' | 'routing' | 'process' | 'out'

/** The path of one packet through a node, to be drawn. */
export interface PacketPath {
  /** `10.244.1.7 → 10.96.0.10:53/udp` */
  packet: string
  node: string
  mode: string
  /** False if the rules were predicted for a mode in which the node is not. */
  real: boolean
  /** From where to where it went, in the order of the drawing. */
  legs: [from: Place, to: Place][]
  /** What is between INPUT and OUTPUT. */
  local: 'process' | 'IPVS'
  /** Those that it came to, in the order of the packet. */
  hooks: PathHook[]
  ends: PathEnd[]
  /** What conntrack remembers of the connection, as a sentence; absent for one that does not get through. */
  conntrack?: string
  /** Where it is stopped, in words: the rule, the chain and the consequence for the sender. `rule` is empty where it lacks one. */
  stop?: { hook: Hook; table: string; chain: string; rule: string; words: string }
}

export interface PathHook {
  hook: Hook
  actions: PathAction[]
}

/** What one chain, set or virtual server did to the packet. */
export interface PathAction {
  table: string
  /** The chains from the hook's to the one that decided. */
  chains: string[]
  text: string
  probability: number
  /** Ids of the entries of the node that did it (holdings.ts). */
  entries: string[]
  /** Packets that the kernel counted at this rule while a real packet was sent; absent before. */
  counted?: number
  /** The kernel counted what the prediction all but excludes. */
  disagrees?: true
}

export interface PathEnd {
  to?: string
  verdict: 'dnat' | 'accept' | 'reject' | 'drop'
  probability: number
  masquerade: boolean
  /** The table and chain, or the virtual server, that stopped it. */
  by?: string
  /** How many of the packets that were really sent ended here, where it is known. */
  counted?: number
}

export interface PathOptions {
  node: string
  mode: string
  real: boolean
  /** The destination is one of a Service: a packet that nothing translates is stuck somewhere. */
  isService: boolean
}

/** The path of a packet through what a node holds. Throws as tracePacket does. */
export function packetPath(state: NodeState, packet: Packet, options: PathOptions): PacketPath {
  const { node, mode, real, isService } = options
  const trace = tracePacket(state, packet)
  const entryOf = (step: Step) => entryIds(step, state)
  const hooks = trace.hooks.map((hook) => ({ hook, actions: actionsAt(trace, hook, entryOf) }))
  const stop = trace.outcomes.length === 0 || isService ? stopOf(trace, packet, state, node) : undefined
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
    ...(conntrack && { conntrack }),
    ...(stop && { stop }),
  }
}

const isByIpvs = ({ steps }: Trace) => steps.some(({ table }) => table === 'ipvs')

/** From where to where the packet went; of several paths, all. */
export function legsOf(trace: Trace): [Place, Place][] {
  const { hooks, outcomes } = trace
  const has = (hook: Hook) => hooks.includes(hook)
  const isSent = hooks[0] === 'OUTPUT'
  const legs: [boolean, Place, Place][] = [
    [!isSent, 'in', 'PREROUTING'],
    [has('PREROUTING') && (has('INPUT') || has('FORWARD')), 'PREROUTING', 'routing'],
    [has('INPUT'), 'routing', 'INPUT'],
    [has('INPUT') && (isByIpvs(trace) || outcomes.length > 0), 'INPUT', 'process'],
    [has('FORWARD'), 'routing', 'FORWARD'],
    [has('FORWARD') && has('POSTROUTING'), 'FORWARD', 'POSTROUTING'],
    [has('OUTPUT'), 'process', 'OUTPUT'],
    [has('OUTPUT') && has('POSTROUTING'), 'OUTPUT', 'POSTROUTING'],
    [outcomes.length > 0 && has('POSTROUTING') && !(isSent && has('PREROUTING')), 'POSTROUTING', 'out'],
  ]
  return legs.flatMap(([isTaken, from, to]) => (isTaken ? [[from, to]] : []))
}

/** The hooks at which a part of the connections is stopped. */
export const stoppingHooks = ({ lost, steps }: Trace): Set<Hook> =>
  new Set(lost.flatMap((by) => steps.filter((step) => isBy(step, by)).map(({ hook }) => hook)))

const isBy = (step: Step, by: Pick<Step, 'table' | 'chain' | 'rule'>): boolean =>
  step.matched && step.table === by.table && step.chain === by.chain && step.rule === by.rule

/** Where the packet ends: each destination, and what stops it, with its share. */
export function endsOf({ outcomes, lost, verdict }: Trace): PathEnd[] {
  const sameChain = groupBy(lost, ({ verdict, table, chain }) => `${verdict} ${table} ${chain}`)
  const stopped = [...sameChain.values()].map((alike): PathEnd => {
    const [{ verdict, table, chain }] = alike as [(typeof alike)[number]]
    const probability = alike.reduce((sum, one) => sum + one.probability, 0)
    return { verdict, probability, masquerade: false, by: `${table} ${chain}` }
  })
  return [
    ...outcomes.map((outcome): PathEnd => ({ ...outcome, verdict: verdict === 'accept' ? verdict : 'dnat' })),
    ...stopped,
  ]
}

const SEEN = { reject: 'the sender gets "connection refused"', drop: 'the sender gets no answer and times out' }
const UNTRANSLATED = 'No rule translates it: it goes to its original destination.'

/** What a verdict means for the sender, as a sentence about the packet; empty for one that is translated. */
export function consequenceOf({ verdict }: Trace): string {
  if (verdict === 'dnat') return ''
  if (verdict === 'accept') return UNTRANSLATED
  return `It is ${verdict === 'reject' ? 'rejected' : 'dropped'}: ${SEEN[verdict]}.`
}

function stopOf(trace: Trace, packet: Packet, state: NodeState, node: string): PacketPath['stop'] {
  const place = stoppingPlace(trace, packet, state, ` on ${node}`)
  if (place === undefined) return undefined
  const { verdict } = trace
  const then = verdict === 'reject' || verdict === 'drop' ? SEEN[verdict].replace('the', 'The') : ''
  const words = `The packet ${place}. ${then === '' ? UNTRANSLATED : `${then}.`}`
  const [by] = trace.outcomes.length === 0 ? trace.lost : []
  const step = by && trace.steps.find((one) => isBy(one, by))
  if (step) return { hook: step.hook, table: step.table, chain: step.chain, rule: step.rule, words }
  // Nothing stops what nothing translates: it is stuck where it last went to a chain of kube-proxy, or at the hook that should take it there.
  const last = trace.steps.findLast(
    ({ hook, target, table }) => hook !== 'POSTROUTING' && target !== undefined && /nat|kube-proxy/.test(table),
  )
  const hook = last?.hook ?? trace.hooks[0] ?? 'PREROUTING'
  return { hook, table: last?.table ?? 'nat', chain: last?.target ?? hook, rule: '', words }
}

/** Conntrack alone translates replies back; they meet no nat rule. */
function rememberedOf({ outcomes, packet }: Trace, { destination, port }: Packet): string | undefined {
  const [first] = outcomes
  const to = printEndpoint(destination, port)
  if (!first || (outcomes.length === 1 && first.to === to && !first.masquerade)) return undefined
  const ends = outcomes.length === 1 ? first.to : 'the one endpoint that was chosen'
  return `conntrack remembers ${packet} and ${ends}: replies come from ${to} again, and later packets of the connection meet no nat rule.`
}

const QUIET = new Set(['JUMP', 'GOTO', 'CONTINUE', 'RETURN', 'NO MATCH'])

/**
 * What was done to a packet at a hook. What the chains of one table did alike, each to a part of the connections, have the same
 * `chains`: those that lead to all of them.
 */
export function actionsAt({ steps }: Trace, hook: Hook, entryOf: (step: Step) => string[] = () => []): PathAction[] {
  const acting = steps
    .filter((step) => step.hook === hook && step.matched && !acceptsByPolicy(step))
    .filter(({ verdict, reason }) => (QUIET.has(verdict) ? reason.includes('mark becomes') : true))
    // Masquerading clears the mark that requested it; the next action shows that.
    .filter(({ reason }) => !/mark becomes 0x0$/.test(reason))
    .map((step) => ({ step, text: describeAction(step), path: step.path ?? [step.chain] }))
  const groups = groupBy(acting, ({ step, text, path }) => `${step.table} ${path[0]} ${text.split(' ')[0]}`)
  return [...groups.values()].flatMap((group) => {
    const chains = commonPath(group.map(({ path }) => path))
    return [...groupBy(group, ({ text }) => text).values()].map((alike): PathAction => {
      const [{ step, text }] = alike as [(typeof alike)[number]]
      const probability = alike.reduce((sum, one) => sum + one.step.probability, 0)
      const entries = [...new Set(alike.flatMap((one) => entryOf(one.step)))]
      return { table: step.table, chains, text, probability: Math.min(1, probability), entries }
    })
  })
}

/** `DNAT to 10.244.1.6:80`, `REJECT icmp-port-unreachable`, `mark becomes 0x4000`. */
function describeAction({ verdict, reason, rule }: Step): string {
  const did = reason.split('; ').at(-1) ?? ''
  const effect = /(?:^|[,;] )((?:connection )?mark becomes \S+|(?:to|source becomes) \S+)$/.exec(
    reason.split(/; scheduler /)[0] ?? '',
  )?.[1]
  if (QUIET.has(verdict)) return effect ?? did
  if (verdict === 'REJECT' || verdict === 'DROP') return `${verdict}: ${rule}`
  return `${verdict}${effect === undefined ? '' : ` ${effect}`}`
}

function commonPath(paths: readonly (readonly string[])[]): string[] {
  const [first = []] = paths
  const length = first.findIndex((chain, index) => paths.some((path) => path[index] !== chain))
  return length === -1 ? [...first] : first.slice(0, length)
}

function entryIds(
  { table, chain, rule }: Step,
  { iptables, nftables = [], foreignNftables = [] }: NodeState,
): string[] {
  if (table === 'ipvs') {
    const real = / -r (\S+)/.exec(rule)?.[1]
    return [real === undefined ? idOf.virtualServer(chain) : `${idOf.virtualServer(chain)}/${real}`]
  }
  if (iptables.has(table)) {
    const id = idOf.chain(table, chain)
    return [rule.startsWith('-P ') ? id : `${id}/${normaliseSpec(rule.slice(`-A ${chain} `.length))}`]
  }
  const id = idOf.nft(table, 'chain', chain)
  const nft = [...nftables, ...foreignNftables].find((one) => nftTitle(one) === table)
  const comment = nft?.chains.get(chain)?.rules.find(({ text }) => text === rule)?.comment
  if (rule.startsWith('policy ')) return [id]
  return [`${id}/${comment === undefined ? rule : `${rule} comment "${comment}"`}`]
}

const MODES: readonly KubeProxyMode[] = ['iptables', 'ipvs', 'nftables']

/**
 * The same packet in every mode that the node's kube-proxy has: the node's own mode first, from what it holds, the others from
 * predictions, with the node's own links and routes. Throws as tracePacket and predict do.
 */
export function pathsInAllModes(
  state: NodeState,
  objects: ClusterObjects,
  packet: Packet,
  own: Omit<PredictOptions, 'mode'> & { mode: string; isService: boolean },
): PacketPath[] {
  const { node, mode, isService, ...options } = own
  const others = MODES.filter((one) => one !== mode).flatMap((other) => {
    const predicted = predictIn(other)
    return predicted ? [packetPath(predicted, packet, { node, mode: other, real: false, isService })] : []
  })
  return [packetPath(state, packet, { node, mode, real: true, isService }), ...others]

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

/** Below this chance that as few packets as were counted came to a rule, kernel and prediction disagree. */
const IMPLAUSIBLE = 0.001

/**
 * A path with what the kernel counted while `sent` new connections were made: packets at each rule, connections at each real server.
 * Where a rule has no counter (nf_tables) nothing is said.
 */
export function countedOn(path: PacketPath, before: NodeHoldings, after: NodeHoldings, sent: number): PacketPath {
  const [was, is] = [countersOf(before), countersOf(after)]
  const countOf = (ids: readonly string[]): number | undefined => {
    const counts = ids.flatMap((id) => (is.has(id) ? (is.get(id) as number) - (was.get(id) ?? 0) : []))
    return counts.length === 0 || counts.length < ids.length ? undefined : counts.reduce((sum, one) => sum + one, 0)
  }
  const hooks = path.hooks.map(({ hook, actions }) => ({
    hook,
    actions: actions.map((action): PathAction => {
      const counted = countOf(action.entries)
      // One rule that does different things to parts of the connections (MASQUERADE by interface) has one counter for all.
      const isShared = actions.some((other) => other !== action && other.entries.join() === action.entries.join())
      if (counted === undefined || isShared) return action
      const chance = action.probability > 1 - 1e-6 ? Number(counted >= sent) : (1 - action.probability) ** sent
      const disagrees = counted < sent && (counted === 0 || action.probability > 1 - 1e-6) && chance < IMPLAUSIBLE
      return { ...action, counted, ...(disagrees && { disagrees: true as const }) }
    }),
  }))
  const actions = hooks.flatMap((one) => one.actions)
  const ends = path.ends.map((end): PathEnd => {
    const isOnly = path.ends.filter(({ to, by }) => to === end.to && by === end.by).length === 1
    const action = actions.findLast(({ text, table, chains }) =>
      end.to === undefined
        ? /^(DROP|REJECT)/.test(text) && end.by === `${table} ${chains.at(-1)}`
        : text.endsWith(` to ${end.to}`),
    )
    return isOnly && action?.counted !== undefined ? { ...end, counted: action.counted } : end
  })
  return { ...path, hooks, ends }
}

function countersOf(holdings: NodeHoldings): Map<string, number> {
  const counters = new Map<string, number>()
  for (const { id, packets, connections } of entriesOf(holdings)) {
    if (packets !== undefined) counters.set(id, packets)
    else if (connections) counters.set(id, connections.active + connections.inactive)
  }
  return counters
}
