// Lab 10: session affinity, a client that stays with its Pod over new connections until its
// timeout.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { type TimedRequest, timedRequests } from './access-log.ts'
import { expectReady, expectShopProgrammed, shopClient, shopService } from './shop.ts'

const STEP = 'affinity'
const WORD = 'sticky'
const TIMEOUT_SECONDS = 3
const SHOW_LOGS = `kubectl logs -l app=shop --prefix | grep ${WORD}`
const SEND = `kubectl exec client -- sh -c 'for N in $(seq 7); do curl -s -o /dev/null "http://'$SHOP'/?${WORD}$N"; sleep 0.7; done'`

/**
 * The timeout of shop's session affinity in seconds; fails if it has none, or one that takes too
 * long to wait for.
 */
function affinityTimeout(snapshot: Snapshot): number {
  const { service } = shopService(snapshot)
  const seconds = service.sessionAffinity === 'ClientIP' ? service.sessionAffinityTimeout : 0
  expectThat(seconds > 0 && seconds <= 60, {
    inspect: 'kubectl get service shop -o yaml',
    expected: 'session affinity ClientIP with a timeout of at most a minute',
    actual: seconds === 0 ? 'none' : `a timeout of ${seconds} s`,
    next: `kubectl patch service shop --type merge -p '{"spec":{"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":${TIMEOUT_SECONDS}}}}}'`,
  })
  return seconds
}

/** shop has session affinity and several Pods, and every node has its rules. */
export const rulesRemember = onceSeen(STEP, async (context: CheckContext) => {
  const { snapshot } = context
  const seconds = affinityTimeout(snapshot)
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  return { seconds }
})

/**
 * The latest requests to one Pod of which each came within the timeout of the one before. A request
 * that was sent before every node had the rules may have had another Pod.
 */
function latestSeries(requests: readonly TimedRequest[], timeoutMs: number): TimedRequest[] {
  const first = requests.findLastIndex(({ at, pod }, index) => {
    const before = requests[index - 1]
    return before !== undefined && (before.pod !== pod || at - before.at >= timeoutMs)
  })
  return requests.slice(Math.max(first, 0))
}

const seriesNote = z.looseObject({ requests: z.number(), seconds: z.number() })

/**
 * Evidence: requests of the client for longer than the timeout, none of them later than the timeout
 * after the one before.
 */
export const stickyRequests: EvidenceCheck = async ({ live, snapshot, show }) => {
  const timeoutSeconds = affinityTimeout(snapshot)
  const { client } = shopClient(snapshot)
  const names = podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)
  const logged = await timedRequests(live, names, WORD)
  const own = logged.filter((request) => request.client === client.address)
  const series = latestSeries(own, timeoutSeconds * 1000)
  const seconds = ((series.at(-1)?.at ?? 0) - (series[0]?.at ?? 0)) / 1000
  show([`${series.length} requests in ${seconds} s, answered by one Pod`])
  expectThat(series.length >= 5 && seconds > timeoutSeconds, {
    inspect: SHOW_LOGS,
    expected: `five requests to one Pod, of the client and with the word "${WORD}" or more, one after the other for longer than the ${timeoutSeconds} s of the timeout`,
    actual: `${series.length} of ${own.length} requests in ${seconds} s`,
    next: SEND,
  })
  return { requests: series.length, seconds }
}

function ownSeries({ notes }: CheckContext): z.infer<typeof seriesNote> {
  return expectFound(notes.read(evidenceKey(STEP), seriesNote), {
    inspect: SHOW_LOGS,
    expected: 'requests of your own, for longer than the timeout',
    next: SEND,
  })
}

/** Predict: how many Pods answer the client's new connections. */
export function podsOfSeries(context: CheckContext): Truth {
  const { requests, seconds } = ownSeries(context)
  return {
    accepts: ['1'],
    inspect: SHOW_LOGS,
    wrong: [
      {
        when: String(shopService(context.snapshot).endpoints.length),
        because:
          'Without affinity each connection may get another Pod. Here rules with -m recent come before those that choose by chance.',
      },
    ],
    because: `${requests} connections in ${seconds} s, and each found the client in the list of the Pod that it had before.`,
  }
}

/** Question: from when the timeout is counted. */
export function timeoutCountsFrom(context: CheckContext): Truth {
  const { seconds } = ownSeries(context)
  const timeoutSeconds = affinityTimeout(context.snapshot)
  return {
    accepts: ['the-last-connection'],
    inspect: SHOW_LOGS,
    wrong: [
      {
        when: 'the-first-connection',
        because: `Then your client would have been free after ${timeoutSeconds} s. It had the same Pod for ${seconds} s.`,
      },
      {
        when: 'the-last-packet',
        because:
          'A list is written by a rule of nat, and nat sees the first packet of a connection only.',
      },
    ],
    because:
      'The rule of the chain KUBE-SEP- that translates has --set, which writes the time of this connection into the list.',
  }
}
