// Assertions about real traffic and listeners, for checks. Each throws a failure with the command to repeat it, or returns if
// it holds.

import { onNode } from './difference-report.ts'
import { expectNone, expectThat, type FailureDetail, fail } from './failure.ts'
import type { HttpReply } from './http-requests.ts'
import type { LiveCluster } from './live-cluster.ts'
import { type Sender, traceCommand, traceLine } from './packet-trace.ts'
import type { Snapshot } from './snapshot.ts'

/** Texts of a failure; `inspect`, `expected` and `actual` replace the assertion's own texts. */
type Words = Partial<Omit<FailureDetail, 'node'>>

/** The source and the destination of requests. */
export interface SentRequests {
  snapshot: Snapshot
  node: string
  sender: Sender
  target: { address: string; port: number }
}

/**
 * This number of requests was answered with status 200 each; the failure includes a trace of the packet through the node's
 * rules, and the command that draws it.
 */
export function expectAnswered(
  replies: readonly Pick<HttpReply, 'status'>[],
  times: number,
  { snapshot, node, sender, target }: SentRequests,
  words: Words = {},
): void {
  if (replies.length >= times && replies.every(({ status }) => status === 200)) return
  fail({
    node,
    inspect: onNode(node, `curl -sS --max-time 5 ${target.address}:${target.port}`),
    expected: times === 1 ? 'an answer' : `${times} answers to ${times} requests`,
    actual: `answers with status ${replies.map(({ status }) => status || 'none').join(', ') || 'none'}`,
    differences: traceLine(snapshot.node(node), sender, target),
    next: traceCommand(node, sender, target),
    ...words,
  })
}

/** The result of a measurement that is not the expected one. */
interface Mismeasured extends Pick<FailureDetail, 'actual' | 'differences'> {
  /** Another measurement would have the same result. */
  isFinal?: boolean
}

/** A measurement that other traffic can disturb is right, which returns undefined, in one of several attempts. */
export async function expectWithin(
  attempts: number,
  measure: () => Promise<Mismeasured | undefined>,
  told: Omit<FailureDetail, 'actual'>,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const wrong = await measure()
    if (!wrong) return
    const { isFinal = false, ...found } = wrong
    expectThat(!isFinal && attempt < attempts, { ...told, ...found })
  }
}

/** Every request in the Pods' logs is as expected; `describe` returns the text for one that is not. */
export function expectLogged<Request extends { client: string }>(
  logged: readonly Request[],
  isRight: (request: Request) => boolean,
  describe: (request: Request) => Partial<FailureDetail> & Pick<FailureDetail, 'expected' | 'actual'>,
): void {
  const wrong = logged.find((request) => !isRight(request))
  expectNone(wrong, (request) => ({ inspect: 'kubectl logs -l app=web --prefix --tail=4', ...describe(request) }))
}

/** A process of the node listens on that TCP port, on expected addresses. */
export async function expectListener(
  live: LiveCluster,
  { node, port }: { node: string; port: number },
  isRight: (addresses: readonly string[]) => boolean,
  words: Words & Pick<FailureDetail, 'expected'>,
): Promise<void> {
  const { stdout } = await live.look(node, `ss -Hltn 'sport = :${port}'`)
  const addresses = [...stdout.matchAll(/^\S+ +\d+ +\d+ +(\S+):\d+ /gm)].map(([, address = '']) => address)
  const actual = addresses.length > 0 ? `it listens on ${addresses.join(', ')}` : `nothing listens on port ${port}`
  expectThat(isRight(addresses), { node, inspect: onNode(node, 'ss -ltn'), actual, ...words })
}
