import { onNode } from '../../grading/difference-report.ts'
import { fail, NotApplicable, Trouble } from '../../grading/failure.ts'
import { type HttpRequests, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import {
  hasOutside,
  OUTSIDE,
  type OutsideAddresses,
  printOutsideAddresses,
  readOutsideAddresses,
} from '../../host/outside.ts'

/** For captures, where nobody was outside: a client of a network that is kept for examples (RFC 5737). */
export const SOMEBODY_OUTSIDE = '203.0.113.9'

/** Requests to one address, each over a connection of its own, sent from the machine outside the cluster. */
export type Request = Omit<HttpRequests, 'keep' | 'insist'>

/** A machine that does not answer is given up after this long: netfilter drops without a word. */
export const DROPPED_SECONDS = 0.6

/** The request as a learner would type it. */
export function asTyped(request: Request): string {
  const source = request.source === undefined ? '' : `--interface ${request.source} `
  const url = `http://${request.address}:${request.port}${request.path ?? '/'}`
  return onNode(OUTSIDE, `curl -sS --max-time ${request.seconds ?? 3} ${source}${url}`)
}

/**
 * Sends all requests at once. For each the HTTP statuses of its answers, in order, 0 where there was none; after the first such
 * one no more are sent.
 * @throws NotApplicable where no machine of ours is outside, Trouble when it can't be reached
 */
export async function askFromOutside(live: LiveCluster, requests: readonly Request[]): Promise<number[][]> {
  requireOutside(live)
  const { stdout } = await live.onNode(OUTSIDE, httpRequests(requests))
  const statuses: number[][] = requests.map(() => [])
  for (const { index, status } of readReplies(stdout)) statuses[index]?.push(status)
  return statuses
}

/** The addresses of the machine outside. Throws as askFromOutside does. */
export async function addressesOutside(live: LiveCluster): Promise<OutsideAddresses> {
  requireOutside(live)
  const { stdout, stderr } = await live.look(OUTSIDE, printOutsideAddresses)
  try {
    return readOutsideAddresses(stdout)
  } catch {
    throw new Trouble(`the machine outside the cluster did not say its addresses (${stderr.trim().split('\n')[0]})`)
  }
}

/** Where the rules of the node that a request was sent to lead it, for a failure. */
export const tracedFrom = (asked: (Request & { node?: NodeView }) | undefined) =>
  asked?.node && { differences: traceLine(asked.node, { outside: SOMEBODY_OUTSIDE }, asked) }

/** What requests from outside must come to: this number of answers with that status, or, `times` being 0, no answer of any kind. */
interface WantedAnswers {
  times: number
  status?: number
  expected: string
  hint?: string
}

/** A node was sent requests from outside, and these are the statuses of their answers: they are as they must be. */
export function expectFromOutside(
  request: Request & { node?: NodeView },
  statuses: readonly number[],
  { times, status = 200, expected, hint }: WantedAnswers,
): void {
  const answers = statuses.filter((one) => one > 0)
  if (times === 0 ? answers.length === 0 : answers.filter((one) => one === status).length === times) return
  const { node } = request
  fail({
    ...(node && { node: node.name }),
    ...tracedFrom(request),
    look: asTyped(request),
    expected,
    actual:
      answers.length === 0
        ? 'no answer'
        : `${answers.length} of ${request.times ?? 1} answered, with status ${[...new Set(answers)].join(', ')}`,
    ...(hint !== undefined && { hint }),
  })
}

function requireOutside({ cluster }: LiveCluster): void {
  if (!hasOutside(cluster))
    throw new NotApplicable('this cluster is not ours, and no machine of ours stands outside it to send requests from')
}
