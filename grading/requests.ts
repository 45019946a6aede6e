// Requests over HTTP from a Pod, a node or the machine outside the cluster, for checks: their
// replies, and what the Pods of web logged about them.

import { randomUUID } from 'node:crypto'
import { OUTSIDE } from '../host/outside.ts'
import type { ExecResult } from '../host/shell-word.ts'
import type { CheckContext } from './check-context.ts'
import { WEB_NAMESPACE, type WebService } from './expect-object.ts'
import { type FailureText, fail, NotApplicable, onNode } from './failure.ts'
import { type HttpReply, type HttpRequests, httpRequests, readReplies } from './http-requests.ts'
import type { LiveCluster } from './live-cluster.ts'
import { type Sender, traceCommand, traceLine } from './packet-trace.ts'
import { loggedRequests } from './traffic.ts'

/** A machine that sends requests. */
export interface Requester {
  /** Its name in failures. */
  who: string
  sender: Sender
  /** Runs a script there. Throws as LiveCluster does. */
  run(live: LiveCluster, script: string): Promise<ExecResult>
  /** The learner's command for running one there. */
  typed(command: string): string
}

/** A Pod or a node: packets that it sends traverse this node's rules. */
export interface InsideRequester extends Requester {
  node: string
}
export type PodRequester = InsideRequester & { address: string; sender: { pod: string } }

/** A process of a node. */
export const fromNode = (node: string): InsideRequester => ({
  who: node,
  node,
  sender: 'node',
  run: (live, script) => live.onNode(node, script),
  typed: (command) => onNode(node, command),
})

/** A Pod of the default namespace. */
export const fromPod = (
  name: string,
  { address, node }: { address: string; node: string },
): PodRequester => ({
  who: `the Pod ${name}`,
  node,
  address,
  sender: { pod: address },
  run: (live, script) => live.inPod({ namespace: WEB_NAMESPACE, name }, script),
  typed: (command) => `kubectl exec ${name} -- ${command}`,
})

/** The outside client for captures: an address reserved for documentation (RFC 5737). */
export const EXAMPLE_CLIENT = '203.0.113.9'

/** Throws NotApplicable if the cluster has no machine outside. */
export function requireOutside({ cluster }: LiveCluster): void {
  if (!cluster.capabilities.hasOutside)
    throw new NotApplicable('this cluster has no machine outside to send requests from')
}

/** The machine outside the cluster. */
export const fromOutside: Requester = {
  who: 'a client outside the cluster',
  sender: { outside: EXAMPLE_CLIENT },
  async run(live, script) {
    requireOutside(live)
    return live.onNode(OUTSIDE, script)
  },
  typed: (command) => onNode(OUTSIDE, command),
}

/** The learner's command for a request. */
export function typedRequest(
  { typed }: Requester,
  { address, port, path = '', source, seconds = 3 }: HttpRequests,
  options = `--max-time ${seconds}`,
): string {
  const from = source === undefined ? '' : `--interface ${source} `
  return typed(`curl -sS ${options} ${from}http://${address}:${port}${path}`)
}

/** Timeout of requests that should be dropped: netfilter sends no reply to them. */
export const DROPPED_SECONDS = 0.6

/**
 * Requests, and their replies in the order in which they ended; without `insist` none is sent after
 * one without an answer.
 */
export interface Answered<Request = HttpRequests> {
  request: Request
  replies: HttpReply[]
}

/** Sends series of requests in parallel. Throws as LiveCluster does. */
export async function sendRequests<Request extends HttpRequests>(
  live: LiveCluster,
  from: Requester,
  requests: readonly Request[],
): Promise<Answered<Request>[]> {
  const replies = readReplies((await from.run(live, httpRequests(requests))).stdout)
  return requests.map((request, index) => ({
    request,
    replies: replies.filter((reply) => reply.index === index),
  }))
}

/** The replies with status 200. */
export const answersIn = ({ replies }: Pick<Answered, 'replies'>): HttpReply[] =>
  replies.filter(({ status }) => status === 200)

/**
 * Sends series of requests with a mark; `logs` and `logged` read from web's access logs who
 * answered and which clients it saw, of each series or of all, or throw Trouble.
 */
export async function sendMarked<Request extends HttpRequests>(
  live: LiveCluster,
  from: Requester,
  { backends }: Pick<WebService, 'backends'>,
  requests: readonly Request[],
) {
  const token = `probe-${randomUUID().slice(0, 13)}`
  const marked = requests.map((request, index) => {
    return { ...request, path: `/?${token}-${index}${request.times === undefined ? '' : '='}` }
  })
  const answered = await sendRequests(live, from, marked)
  const logs = async () => {
    const all = await loggedRequests(live, backends, token, answered.flatMap(answersIn).length)
    return answered.map(({ request }, index) => {
      const own = new RegExp(`${token}-${index}\\b`)
      return { request, logged: all.filter(({ line }) => own.test(line)) }
    })
  }
  const logged = async () => (await logs()).flatMap((one) => one.logged)
  return { answered, logs, logged }
}

/**
 * Sends requests to a Service, each over a new connection. Fails, with a trace through the node's
 * rules, unless each has status 200.
 */
export async function expectAnswers(
  { snapshot }: Pick<CheckContext, 'snapshot'>,
  live: LiveCluster,
  from: InsideRequester,
  service: WebService,
  times: number,
  texts: FailureText = {},
) {
  const { address, port } = service
  const { answered, logged } = await sendMarked(live, from, service, [{ address, port, times }])
  const replies = answered[0]?.replies ?? []
  if (answersIn({ replies }).length < times)
    fail({
      node: from.node,
      inspect: typedRequest(from, { address, port, seconds: 5 }),
      expected: `${times === 1 ? 'an answer to a request' : `${times} answers to ${times} requests`} from ${from.who}`,
      actual: `answers with status ${replies.map(({ status }) => status || 'none').join(', ') || 'none'}`,
      differences: traceLine(snapshot.node(from.node), from.sender, service),
      next: traceCommand(from.node, from.sender, service),
      ...texts,
    })
  return { replies, logged }
}
