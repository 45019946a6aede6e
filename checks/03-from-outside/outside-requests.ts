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

/** The outside client for captures: an address reserved for documentation (RFC 5737). */
export const EXAMPLE_CLIENT = '203.0.113.9'

/** Requests to one address, each over a new connection, sent from the machine outside the cluster. */
export type Request = Omit<HttpRequests, 'keep' | 'insist'>

/** Timeout for requests that should be dropped: netfilter sends no reply to them. */
export const DROPPED_SECONDS = 0.6

/** The request as a command for the learner. */
export function asTyped(request: Request): string {
  const source = request.source === undefined ? '' : `--interface ${request.source} `
  const url = `http://${request.address}:${request.port}${request.path ?? '/'}`
  return onNode(OUTSIDE, `curl -sS --max-time ${request.seconds ?? 3} ${source}${url}`)
}

/**
 * Sends all requests in parallel. Returns for each the HTTP statuses of its answers, in order, 0 if there was none; after the
 * first 0 no more are sent.
 * @throws NotApplicable if the cluster has no outside machine, Trouble when it can't be reached
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
    throw new Trouble(`the machine outside the cluster did not report its addresses (${stderr.trim().split('\n')[0]})`)
  }
}

/** The trace of a request through the rules of its node, for a failure. */
export const tracedFrom = (asked: (Request & { node?: NodeView }) | undefined) =>
  asked?.node && { differences: traceLine(asked.node, { outside: EXAMPLE_CLIENT }, asked) }

/** The expected answers to requests from outside: this number with that status, or, if `times` is 0, no answer at all. */
interface WantedAnswers {
  times: number
  status?: number
  expected: string
  hint?: string
}

/** Compares the statuses of answers to requests from outside with the expected ones. */
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
    inspect: asTyped(request),
    expected,
    actual:
      answers.length === 0
        ? 'no answer'
        : `${answers.length} of ${request.times ?? 1} answered, with status ${[...new Set(answers)].join(', ')}`,
    ...(hint !== undefined && { hint }),
  })
}

function requireOutside({ cluster }: LiveCluster): void {
  if (!hasOutside(cluster)) throw new NotApplicable('this cluster has no machine outside to send requests from')
}

/** One request in the log of the Pod that answered it. */
interface LoggedRequest {
  /** The index of the request. */
  index: number
  backend: WebBackend
  /** The address that the Pod saw as the client. */
  client: string
}

/** The results of requests: the statuses of each, and the Pods' log entries of the answered ones. */
interface Traffic {
  statuses: number[][]
  logged: LoggedRequest[]
}

const LOG_SECONDS = 60

/**
 * Sends requests from outside and reads the answering Pods and the logged client addresses from the Pods' access logs. Throws
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
