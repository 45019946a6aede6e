import { NodeNetwork } from '../../dataplane/trace/node-network.ts'
import type { Hook } from '../../dataplane/trace/step.ts'
import { CircleError, PacketError, tracePacket } from '../../dataplane/trace.ts'
import { Trouble } from '../../grading/failure.ts'
import type { NodeView } from '../../grading/snapshot.ts'

/** The rule that stops every packet of a kind. */
export interface Stop {
  hook: Hook
  table: string
  chain: string
  /** As iptables-save prints it, with `-A CHAIN`. */
  rule: string
}

/** What a node does with the first packet of a connection: to a listener of its own, on to another host, or stopped. */
export type Way = { end: 'delivered' } | { end: 'sent on'; to: string[] } | { end: 'stopped'; by: Stop }

/** A node by name, with what it holds. */
export type NodeTables = Pick<NodeView, 'name' | 'state'>

interface Destination {
  address: string
  port: number
}

/** The way of a Pod's packet through what its node holds. Throws Trouble when it can't be walked. */
export function wayOf({ name, state }: NodeTables, source: string, { address, port }: Destination): Way {
  const trace = walked(name, () =>
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

/** The chains of filter that such a packet meets before IPVS, or the network, gets it: INPUT, or FORWARD. */
export function filterHooks({ name, state }: NodeTables, source: string, { address, port }: Destination): Hook[] {
  const { steps } = walked(name, () =>
    tracePacket(state, { from: 'pod', source, destination: address, port, protocol: 'tcp' }, { matchingOnly: true }),
  )
  const taken = steps.findIndex(({ table }) => table === 'ipvs')
  const before = taken === -1 ? steps : steps.slice(0, taken)
  return [...new Set(before.filter(({ table }) => table === 'filter').map(({ hook }) => hook))]
}

/** A way as the end of a sentence that begins with "the packet". */
export function tellWay(way: Way, node: string): string {
  if (way.end === 'delivered') return `is delivered to whatever listens on ${node}`
  if (way.end === 'sent on') return `is sent on to ${way.to.join(' or ') || 'nobody'}`
  return `is stopped on ${node} by ${way.by.table} ${way.by.chain}: ${way.by.rule}`
}

function walked<T>(node: string, walk: () => T): T {
  try {
    return walk()
  } catch (error) {
    if (!(error instanceof PacketError || error instanceof CircleError)) throw error
    throw new Trouble(`on ${node} ${error.message}`)
  }
}
