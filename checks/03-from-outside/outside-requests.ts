import { onNode } from '../../grading/difference-report.ts'
import { fail, NotApplicable, Trouble } from '../../grading/failure.ts'
import { type HttpRequests, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { WEB_NAMESPACE, type WebBackend, type WebService } from '../../grading/web-service.ts'
import {
  hasOutside,
  OUTSIDE,
  type OutsideAddresses,
  printOutsideAddresses,
  readOutsideAddresses,
} from '../../host/outside.ts'
import { waitFor } from '../../host/wait.ts'
import { newToken } from '../02-ipvs/web-requests.ts'

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

/** One request as the Pod that answered it logged it. */
interface LoggedRequest {
  /** Which of the requests it was. */
  index: number
  backend: WebBackend
  /** The address that the Pod saw as the client. */
  client: string
}

/** What came of requests: the statuses of each, and what the Pods logged of those that were answered. */
interface Traffic {
  statuses: number[][]
  logged: LoggedRequest[]
}

const LOG_SECONDS = 60

/**
 * Sends requests from outside and reads in the Pods' access logs who answered them, and to whom they thought to answer. Throws
 * as askFromOutside does, and Trouble when an answer is in no log.
 */
export async function askAndReadLogs(
  live: LiveCluster,
  web: WebService,
  requests: readonly Request[],
): Promise<Traffic> {
  const token = newToken()
  const marked = requests.map((request, index) => ({
    ...request,
    path: `/?${token}-${index}${request.times === undefined ? '' : '='}`,
  }))
  const statuses = await askFromOutside(live, marked)
  const answered = statuses.flat().filter((status) => status === 200).length
  try {
    const logged = await waitFor('the access logs', 4000, async () => {
      const found = await readLogs(live, web, token)
      return found.length >= answered && found
    })
    return { statuses, logged }
  } catch (error) {
    if (error instanceof Trouble) throw error
    throw new Trouble('the web Pods answered, but their access logs do not show it')
  }
}

async function readLogs(live: LiveCluster, { backends }: WebService, token: string): Promise<LoggedRequest[]> {
  const request = new RegExp(`${token}-(\\d+)\\b`)
  const logs = await Promise.all(
    backends.map(async (backend) => {
      const log = await live.log({ namespace: WEB_NAMESPACE, name: backend.pod }, LOG_SECONDS)
      return log.split('\n').flatMap((line) => {
        const index = request.exec(line)?.[1]
        return index === undefined ? [] : [{ index: Number(index), backend, client: line.split(' ', 1)[0] ?? '' }]
      })
    }),
  )
  return logs.flat()
}
