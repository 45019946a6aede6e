import { printEndpoint } from '../../dataplane/ip-address.ts'
import { NodeNetwork } from '../../dataplane/trace/node-network.ts'
import type { Hook } from '../../dataplane/trace/step.ts'
import { CircleError, PacketError, tracePacket } from '../../dataplane/trace.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { dummyDeviceOwnsClusterIPs } from '../02-ipvs/equality.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'

/** The rule that stops every packet of a kind. */
export interface Stop {
  hook: Hook
  table: string
  chain: string
  /** As iptables-save prints it, with `-A CHAIN`. */
  rule: string
}

/** The end of a connection's first packet on a node: delivered to a local listener, forwarded to another host, or stopped. */
export type PacketPath = { end: 'delivered' } | { end: 'sent on'; to: string[] } | { end: 'stopped'; by: Stop }

/** A node's name and state. */
export type NodeTables = Pick<NodeView, 'name' | 'state'>

interface Destination {
  address: string
  port: number
}

/** The path of a Pod's packet through the tables of its node. Throws Trouble when it can't be traced. */
function packetPathOf(node: NodeTables, source: string, { address, port }: Destination): PacketPath {
  const state = stateOf(node)
  const trace = tracedOrTrouble(node.name, () =>
    tracePacket(state, { from: 'pod', source, destination: address, port, protocol: 'tcp' }, { matchingOnly: true }),
  )
  const [loss] = trace.lost
  if (loss && trace.outcomes.length === 0) {
    const { table, chain, rule } = loss
    const step = trace.steps.findLast((one) => one.table === table && one.chain === chain && one.rule === rule)
    return { end: 'stopped', by: { hook: step?.hook ?? 'PREROUTING', table, chain, rule } }
  }
  const isOwn = new NodeNetwork(state.links, state.routes).isLocal(address)
  if (trace.verdict === 'accept' && isOwn) return { end: 'delivered' }
  return { end: 'sent on', to: trace.outcomes.map(({ to }) => to) }
}

/** The filter chains that the packet traverses before IPVS or forwarding: INPUT, or FORWARD. */
export function filterHooks(node: NodeTables, source: string, { address, port }: Destination): Hook[] {
  const { steps } = tracedOrTrouble(node.name, () =>
    tracePacket(
      stateOf(node),
      { from: 'pod', source, destination: address, port, protocol: 'tcp' },
      { matchingOnly: true },
    ),
  )
  const taken = steps.findIndex(({ table }) => table === 'ipvs')
  const before = taken === -1 ? steps : steps.slice(0, taken)
  return [...new Set(before.filter(({ table }) => table === 'filter').map(({ hook }) => hook))]
}

/** The failure texts for a packet with an unexpected path; a hint may depend on the actual path. */
interface PathWords {
  /** The command to inspect it on the node. */
  inspect: string
  expected: string
  hint?: string | ((path: PacketPath) => string)
}

/** Expectations of the path of a client's packet through a node. Each fails with the path that the packet takes instead. */
export const expectPacket = (node: NodeTables, client: string, to: Destination, words: PathWords): PathExpectation =>
  new PathExpectation(node, packetPathOf(node, client, to), to, words)

class PathExpectation {
  readonly #node: NodeTables
  readonly #path: PacketPath
  readonly #to: Destination
  readonly #words: PathWords

  constructor(node: NodeTables, path: PacketPath, to: Destination, words: PathWords) {
    this.#node = node
    this.#path = path
    this.#to = to
    this.#words = words
  }

  /** A rule stops it, and it is the expected one. Returns the rule. */
  isStopped(isMeant: (by: Stop) => boolean = () => true): Stop {
    return this.#path.end === 'stopped' && isMeant(this.#path.by) ? this.#path.by : this.#fails()
  }

  isNotStopped(): void {
    if (this.#path.end === 'stopped') this.#fails()
  }

  /** A process of the node receives it. */
  isDelivered(): void {
    if (this.#path.end !== 'delivered') this.#fails()
  }

  isNotDelivered(): void {
    if (this.#path.end === 'delivered') this.#fails()
  }

  /** It leaves for another host or Pod. */
  isSentOn(): void {
    if (this.#path.end !== 'sent on') this.#fails()
  }

  #fails(): never {
    const { inspect, expected, hint } = this.#words
    const { address, port } = this.#to
    const advice = typeof hint === 'function' ? hint(this.#path) : hint
    fail({
      node: this.#node.name,
      inspect: onNode(this.#node.name, inspect),
      expected,
      actual: `a packet for ${address}:${port} ${describePath(this.#path, this.#node.name)}`,
      ...(advice === undefined ? {} : { hint: advice }),
    })
  }
}

/** A path as the end of a sentence that begins with "the packet". */
function describePath(path: PacketPath, node: string): string {
  if (path.end === 'delivered') return `is delivered to a listener on ${node}`
  if (path.end === 'sent on') return `is sent on to ${path.to.join(' or ') || 'no host'}`
  return `is stopped on ${node} by ${path.by.table} ${path.by.chain}: ${path.by.rule}`
}

function tracedOrTrouble<T>(node: string, walk: () => T): T {
  try {
    return walk()
  } catch (error) {
    if (!(error instanceof PacketError || error instanceof CircleError)) throw error
    throw new Trouble(`on ${node} ${error.message}`)
  }
}

/**
 * The state that this lab's packets depend on in IPVS mode equals the prediction: the addresses of kube-ipvs0, and the
 * virtual server of web. Otherwise the result could be caused by a fault instead of the mode.
 */
export function expectPredictedIpvs(context: CheckContext, node: string): void {
  const { snapshot } = context
  const nodes = [snapshot.node(node)]
  dummyDeviceOwnsClusterIPs({ ...context, nodes })
  const { name, address, port } = webService(snapshot)
  expectNodes(nodes)
    .virtualServer(`TCP ${printEndpoint(address, port)}`)
    .equalPrediction('ipvs', `a virtual server for ${name} with each of its Pods`)
}

/** IPVS mode with the rules of 1.20, where the client's packets to web are judged: its node equals the prediction. */
export function clientInIpvsMode(context: CheckContext) {
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=1.20' })
  const service = webService(context.snapshot)
  const { address: client, node } = clientPod(context)
  expectPredictedIpvs(context, node)
  return { service, client, node, view: context.snapshot.node(node) }
}
