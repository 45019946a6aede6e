// Connections of the machine outside the cluster to virtual servers: single requests, and
// connections that stay open.

import type { Advice } from '../../grading/advice.ts'
import { fail } from '../../grading/failure.ts'
import {
  type ClientAction,
  type OrderedRequest,
  readReplies,
  requestsInOrder,
} from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { fromOutside, typedRequest } from '../../grading/requests.ts'
import { OUTSIDE } from '../../host/outside.ts'
import type { LvsNodes } from './lvs-nodes.ts'

const isRequest = (action: ClientAction): action is OrderedRequest =>
  action !== 'release all' && 'address' in action

/** This number of the same request. */
export const requestTimes = (times: number, request: OrderedRequest): ClientAction[] =>
  Array<ClientAction>(times).fill(request)

const NODE_AND_PORT = /^(\S+):\d+$/

/**
 * Performs actions in order, until an answer is missing. Returns the answers: the names of real
 * servers, `NODE:PORT`.
 */
export async function perform(
  live: LiveCluster,
  actions: readonly ClientAction[],
): Promise<string[]> {
  const { stdout } = await live.onNode(OUTSIDE, requestsInOrder(actions))
  return readReplies(stdout).flatMap(({ line }) => (NODE_AND_PORT.test(line) ? line : []))
}

/** Like perform, but fails on the first connection without an answer. */
export async function expectAnswered(
  live: LiveCluster,
  { director }: LvsNodes,
  actions: readonly ClientAction[],
  advice: Partial<Advice>,
): Promise<string[]> {
  const answers = await perform(live, actions)
  const request = actions.filter(isRequest)[answers.length]
  if (!request) return answers
  return fail({
    node: director.name,
    inspect: typedRequest(fromOutside, { ...request, seconds: 2 }),
    expected: `an answer of a real server through ${request.address}:${request.port}`,
    actual: 'no answer',
    ...advice,
  })
}

/** The node in a real server's answer. */
export const nodeOf = (answer = ''): string => NODE_AND_PORT.exec(answer)?.[1] ?? ''

export const answersFrom = (answers: readonly string[], node: string): number =>
  answers.filter((answer) => nodeOf(answer) === node).length

/** How often each real server's node answered, as `NODE 6, NODE 2`. */
export const tally = (answers: readonly string[], { realServers }: LvsNodes): string =>
  realServers.map(({ node }) => `${node} ${answersFrom(answers, node)}`).join(', ')
