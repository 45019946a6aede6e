import { NodeNetwork } from '../../dataplane/trace/node-network.ts'
import type { Hook } from '../../dataplane/trace/step.ts'
import { expectFound, expectThat, type FailureDetail, onNode } from '../../grading/failure.ts'
import { type NodeTables, type PacketTarget, traceOf } from '../../grading/packet-trace.ts'
import type { Requester } from '../../grading/requests.ts'
import { stateOf } from '../../grading/snapshot.ts'

/** The rule that stops every packet of a kind. */
export interface Stop {
  hook: Hook
  table: string
  chain: string
  /** As iptables-save prints it, with `-A CHAIN`. */
  rule: string
}

/**
 * The end of a connection's first packet on a node: delivered to a local listener, forwarded to
 * another host, or stopped.
 */
type FirstPacketEnd =
  | { end: 'delivered' }
  | { end: 'sent on'; to: string[] }
  | { end: 'stopped'; by: Stop }

type RequestSource = Pick<Requester, 'sender'>

/** Where the first packet of a connection ends on a node. */
export function packetPathOf(
  node: NodeTables,
  { sender }: RequestSource,
  to: PacketTarget,
): FirstPacketEnd {
  const { links, routes } = stateOf(node)
  const { lost, outcomes, verdict } = traceOf(node, sender, to)
  const [loss] = lost
  if (loss && outcomes.length === 0) return { end: 'stopped', by: loss }
  const isOwn = new NodeNetwork(links, routes).isLocal(to.address)
  return verdict === 'accept' && isOwn
    ? { end: 'delivered' }
    : { end: 'sent on', to: outcomes.map(({ to }) => to) }
}

/** The filter chains that the packet traverses before IPVS or forwarding: INPUT, or FORWARD. */
export function filterHooks(node: NodeTables, { sender }: RequestSource, to: PacketTarget): Hook[] {
  const { steps } = traceOf(node, sender, to)
  const ipvs = steps.findIndex(({ table }) => table === 'ipvs')
  const before = ipvs === -1 ? steps : steps.slice(0, ipvs)
  return [...new Set(before.filter(({ table }) => table === 'filter').map(({ hook }) => hook))]
}

/**
 * Expectations of a packet's path through a node; each fails with the path taken instead. `inspect`
 * is the command to inspect it there.
 */
export function expectPacket(
  node: NodeTables,
  source: RequestSource,
  to: PacketTarget,
  { inspect, ...texts }: Pick<FailureDetail, 'inspect' | 'expected' | 'why' | 'hint' | 'next'>,
) {
  const path = packetPathOf(node, source, to)
  const actual = `a packet for ${to.address}:${to.port} ${describePath(path, node.name)}`
  const told = { node: node.name, inspect: onNode(node.name, inspect), actual, ...texts }
  return {
    /** A rule stops it, and it is the expected one. Returns the rule. */
    isStopped: (isMeant: (by: Stop) => boolean = () => true): Stop =>
      expectFound(path.end === 'stopped' && isMeant(path.by) ? path.by : undefined, told),
    isNotStopped: () => expectThat(path.end !== 'stopped', told),
    /** A process of the node receives it. */
    isDelivered: () => expectThat(path.end === 'delivered', told),
    isNotDelivered: () => expectThat(path.end !== 'delivered', told),
    /** It leaves for another host or Pod. */
    isSentOn: () => expectThat(path.end === 'sent on', told),
  }
}

/** A path as the end of a sentence that begins with "the packet". */
function describePath(path: FirstPacketEnd, node: string): string {
  if (path.end === 'delivered') return `is delivered to a listener on ${node}`
  if (path.end === 'sent on') return `is sent on to ${path.to.join(' or ') || 'no host'}`
  return `is stopped on ${node} by ${path.by.table} ${path.by.chain}: ${path.by.rule}`
}
