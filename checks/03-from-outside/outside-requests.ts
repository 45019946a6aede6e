import type { WebBackend, WebService } from '../../grading/expect-object.ts'
import { fail, NotApplicable, onNode, Trouble } from '../../grading/failure.ts'
import { type HttpRequests, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import { type NodeView, nodeAddressOf, type Snapshot } from '../../grading/snapshot.ts'
import { type LoggedRequest, loggedRequests } from '../../grading/traffic.ts'
import {
  hasOutside,
  OUTSIDE,
  type OutsideAddresses,
  printOutsideAddresses,
  readOutsideAddresses,
} from '../../host/outside.ts'
import { newToken } from '../web-client.ts'

/** The outside client for captures: an address reserved for documentation (RFC 5737). */
export const EXAMPLE_CLIENT = '203.0.113.9'

/** Timeout for requests that should be dropped: netfilter sends no reply to them. */
export const DROPPED_SECONDS = 0.6

/** Requests to one address, each over a new connection, sent from the machine outside the cluster. */
export type OutsideRequest = Omit<HttpRequests, 'keep' | 'insist'>

/** Requests to a port of a node. */
export type NodeRequest = OutsideRequest & { node: NodeView }

/** Requests, and the HTTP statuses of their answers in order, 0 if there was none; after the first 0 no more are sent. */
export interface Answered<Request> {
  request: Request
  statuses: number[]
}

/** A request to that port of each node. */
export const toEachNode = (snapshot: Snapshot, port: number): NodeRequest[] =>
  snapshot.nodes.map((node) => ({ node, address: nodeAddressOf(snapshot, node.name), port }))

/** The request as a command for the learner. */
export function typedCommand({ address, port, path = '/', source, seconds = 3 }: OutsideRequest): string {
  const from = source === undefined ? '' : `--interface ${source} `
  return onNode(OUTSIDE, `curl -sS --max-time ${seconds} ${from}http://${address}:${port}${path}`)
}

/**
 * Sends all requests in parallel.
 * @throws NotApplicable if the cluster has no outside machine, Trouble when it can't be reached
 */
export async function sendFromOutside<Request extends OutsideRequest>(
  live: LiveCluster,
  requests: readonly Request[],
): Promise<Answered<Request>[]> {
  requireOutside(live)
  const replies = readReplies((await live.onNode(OUTSIDE, httpRequests(requests))).stdout)
  return requests.map((request, index) => {
    return { request, statuses: replies.filter((reply) => reply.index === index).map(({ status }) => status) }
  })
}

/**
 * Sends requests from outside, and reads from the access logs of web which Pods answered them and the clients that they saw. Throws as
 * sendFromOutside does, and Trouble when an answer is in no log.
 */
export async function sendAndReadLogs<Request extends OutsideRequest>(
  live: LiveCluster,
  { backends }: WebService,
  requests: readonly Request[],
): Promise<(Answered<Request> & { logged: LoggedRequest<WebBackend>[] })[]> {
  const token = newToken()
  const marked = requests.map((request, index) => {
    return { ...request, path: `/?${token}-${index}${request.times === undefined ? '' : '='}` }
  })
  const answered = await sendFromOutside(live, marked)
  const count = answered.flatMap(({ statuses }) => statuses).filter((status) => status === 200).length
  const logged = await loggedRequests(live, backends, token, count)
  return answered.map((one, index) => {
    const own = new RegExp(`${token}-${index}\\b`)
    return { ...one, logged: logged.filter(({ line }) => own.test(line)) }
  })
}

/** The addresses of the machine outside. Throws as sendFromOutside does. */
export async function addressesOutside(live: LiveCluster): Promise<OutsideAddresses> {
  requireOutside(live)
  const { stdout, stderr } = await live.readOnNode(OUTSIDE, printOutsideAddresses)
  try {
    return readOutsideAddresses(stdout)
  } catch {
    throw new Trouble(`the machine outside the cluster did not report its addresses (${stderr.trim().split('\n')[0]})`)
  }
}

function requireOutside({ cluster }: LiveCluster): void {
  if (!hasOutside(cluster)) throw new NotApplicable('this cluster has no machine outside to send requests from')
}

/** The trace of a request through the rules of its node, for a failure. */
export const tracedFromOutside = ({ node, ...target }: NodeRequest) => ({
  differences: traceLine(node, { outside: EXAMPLE_CLIENT }, target),
})

/** The expected answers to requests from outside: this number with that status, or, if `times` is 0, no answer at all. */
interface WantedAnswers {
  times: number
  status?: number
  expected: string
  hint?: string
}

/** Compares the statuses of answers to requests from outside with the expected ones. */
export function expectFromOutside(
  { request, statuses }: Answered<OutsideRequest | NodeRequest>,
  { times, status = 200, expected, hint }: WantedAnswers,
): void {
  const answers = statuses.filter((one) => one > 0)
  if (times === 0 ? answers.length === 0 : answers.filter((one) => one === status).length === times) return
  const seen = [...new Set(answers)].join(', ')
  fail({
    ...('node' in request && { node: request.node.name, ...tracedFromOutside(request) }),
    inspect: typedCommand(request),
    expected,
    actual:
      answers.length === 0 ? 'no answer' : `${answers.length} of ${request.times ?? 1} answered, with status ${seen}`,
    ...(hint !== undefined && { hint }),
  })
}
