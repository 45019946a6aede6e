import { fail, Trouble } from '../../grading/failure.ts'
import type { HttpRequests } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import { type Answered, fromOutside, requireOutside, typedRequest } from '../../grading/requests.ts'
import { type NodeView, nodeAddressOf, type Snapshot } from '../../grading/snapshot.ts'
import {
  OUTSIDE,
  type OutsideAddresses,
  printOutsideAddresses,
  readOutsideAddresses,
} from '../../host/outside.ts'

/** The addresses of the machine outside. Throws Trouble when it can't be reached. */
export async function addressesOutside(live: LiveCluster): Promise<OutsideAddresses> {
  requireOutside(live)
  const { stdout, stderr } = await live.readOnNode(OUTSIDE, printOutsideAddresses)
  try {
    return readOutsideAddresses(stdout)
  } catch {
    throw new Trouble(
      `the machine outside the cluster did not report its addresses (${stderr.trim().split('\n')[0]})`,
    )
  }
}

type NodeRequest = HttpRequests & { node: NodeView }

/** A request to that port of each node. */
export const toEachNode = (snapshot: Snapshot, port: number): NodeRequest[] =>
  snapshot.nodes.map((node) => ({ node, address: nodeAddressOf(snapshot, node.name), port }))

/** The trace of a request from outside through the rules of its node, for a failure. */
export const tracedFromOutside = ({ node, ...target }: NodeRequest) => ({
  differences: traceLine(node, fromOutside.sender, target),
})

/**
 * Requests from outside have this number of answers with that status, or, if `times` is 0, no
 * answer at all.
 */
export function expectFromOutside(
  { request, replies }: Answered<HttpRequests | NodeRequest>,
  {
    times,
    status = 200,
    ...texts
  }: { times: number; status?: number; expected: string; hint?: string },
): void {
  const statuses = replies.map((reply) => reply.status).filter((one) => one > 0)
  const seen = [...new Set(statuses)].join(', ')
  if (
    times === 0 ? statuses.length === 0 : statuses.filter((one) => one === status).length === times
  )
    return
  fail({
    ...('node' in request && { node: request.node.name, ...tracedFromOutside(request) }),
    inspect: typedRequest(fromOutside, { path: '/', ...request }),
    actual: seen
      ? `${statuses.length} of ${request.times ?? 1} answered, with status ${seen}`
      : 'no answer',
    ...texts,
  })
}
