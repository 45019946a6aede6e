// Lab 10: a node whose conntrack table was full for some seconds.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { type TimedRequest, timedRequests } from './access-log.ts'
import {
  expectReady,
  expectShopProgrammed,
  holdConnection,
  shopClient,
  shopService,
} from './shop.ts'

const STEP = 'full'
const KEPT = 'stays'
const NEW = 'fresh'
/**
 * A larger table is not filled: each entry takes some hundred bytes of the kernel's memory.
 * labs/10-connections/fill-conntrack.pl says the same.
 */
const LARGEST = 262_144
/**
 * The program keeps the table full for six seconds; Linux sends a lost SYN again after 1, 2, 3, 4,
 * 5 and 7 s (tcp_syn_linear_timeouts, 6.5).
 */
const SHORTEST_GAP_MS = 4000
const LEAST_KEPT = 3
/** The destination of the entries that the program adds. */
const FILLED = '203.0.113.1'
const FILL = '"perl -e \'$(cat labs/10-connections/fill-conntrack.pl)\'"'
const SHOW_LOGS = `kubectl logs -l app=shop --prefix --tail=-1 | grep '${NEW}\\|${KEPT}'`
const SEND = `kubectl exec client -- sh -c "for N in \\$(seq 600); do curl -s -o /dev/null http://$SHOP/?${NEW}\\$N; sleep 0.5; done >/dev/null 2>&1 &"`

async function numberOnNode({ live }: LiveContext, node: string, script: string): Promise<number> {
  const { stdout } = await live.readOnNode(node, script)
  return Number(stdout.trim())
}

/**
 * shop has two ready Pods, every node has its rules, the table of the client's node was full, and
 * no node's table is full now.
 */
export const tableHasRoom = onceSeen(STEP, async (context: CheckContext) => {
  const { snapshot, live } = context
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  if (!live) return {}
  const { node } = shopClient(snapshot)
  const max = await numberOnNode(
    { ...context, live },
    node.name,
    'cat /proc/sys/net/netfilter/nf_conntrack_max',
  )
  if (max > LARGEST)
    throw new NotApplicable(
      `nf_conntrack_max is ${max} here, and a lab fills no table of more than ${LARGEST} entries`,
    )
  await expectDrops({ ...context, live }, node.name)
  const checks = snapshot.nodes.map(({ name }) => expectNoneLeft({ ...context, live }, name))
  await Promise.all(checks)
  return { max }
})

/**
 * Packets on a node got no entry: without this the step would count as seen before its table was
 * ever full.
 */
async function expectDrops(context: LiveContext, node: string): Promise<void> {
  const drops = await numberOnNode(
    context,
    node,
    `conntrack -S | awk -v RS=' ' -F= '$1 == "drop" { sum += $2 } END { print sum + 0 }'`,
  )
  expectThat(drops > 0, {
    node,
    inspect: onNode(node, 'conntrack -S'),
    expected: 'packets that were dropped because they got no entry (drop=)',
    actual: 'none',
    next: `make exec NODE=${node} CMD=${FILL}`,
  })
}

/** A node has no entry of the program that fills its table. */
async function expectNoneLeft(context: LiveContext, node: string): Promise<void> {
  const left = await numberOnNode(
    context,
    node,
    `conntrack -L -d ${FILLED} 2>/dev/null | grep -c ${FILLED} || true`,
  )
  expectThat(left === 0, {
    node,
    inspect: onNode(node, `conntrack -L -d ${FILLED} | wc -l`),
    expected: 'no entry of the program that fills the table',
    actual: `${left} entries`,
    next: onNode(node, `conntrack -D -d ${FILLED} >/dev/null 2>&1`),
  })
}

/** The time between two successive answers over new connections. */
interface Gap {
  from: TimedRequest
  to: TimedRequest
}

const requestNumber = ({ marker }: TimedRequest) => Number(marker.slice(NEW.length))

/**
 * The longest time between two successive answers over new connections. What is before the first
 * request of a series is no gap.
 */
function longestGap(requests: readonly TimedRequest[]): Gap | undefined {
  const gaps = requests.flatMap((to, index): Gap[] => {
    const from = requests[index - 1]
    return from && requestNumber(to) > 1 ? [{ from, to }] : []
  })
  const length = ({ from, to }: Gap) => to.at - from.at
  return gaps.sort((one, other) => length(other) - length(one))[0]
}

/**
 * Whether the connection after the last one before the gap was answered at last: one that is
 * refused ends, and the next one begins.
 */
const hasWaited = (requests: readonly TimedRequest[], { from, to }: Gap) =>
  requests.some(
    (late) =>
      late.at >= to.at &&
      requests.some(
        (before) => before.at <= from.at && requestNumber(before) === requestNumber(late) - 1,
      ),
  )

const gapNote = z.looseObject({ seconds: z.number(), waited: z.boolean(), kept: z.number() })

/**
 * Evidence: for some seconds no new connection of the client was answered, and the connection that
 * it keeps was.
 */
export const newConnectionsWaited: EvidenceCheck = async (context) => {
  const { live, snapshot, show } = context
  const { client, node } = shopClient(snapshot)
  const again = `make exec NODE=${node.name} CMD=${FILL}`
  const pods = podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)
  const ofClient = async (word: string) =>
    (await timedRequests(live, pods, word)).filter((one) => one.client === client.address)
  const [fresh, stays] = await Promise.all([ofClient(NEW), ofClient(KEPT)])
  const gap = expectFound(longestGap(fresh), {
    inspect: SHOW_LOGS,
    expected: `requests of the client over new connections, with the word "${NEW}" and a number`,
    next: SEND,
  })
  const lasted = gap.to.at - gap.from.at
  const seconds = lasted / 1000
  expectThat(lasted >= SHORTEST_GAP_MS, {
    inspect: SHOW_LOGS,
    expected: `no answer over new connections for ${SHORTEST_GAP_MS / 1000} s, and then one`,
    actual: `at most ${seconds} s between two of them`,
    hint: `While the requests with the word "${NEW}" are sent:`,
    next: again,
  })
  const kept = stays.filter(({ at }) => at > gap.from.at && at < gap.to.at).length
  show([`${seconds} s without an answer over a new connection, ${kept} answers over the kept one`])
  expectThat(kept >= LEAST_KEPT, {
    inspect: SHOW_LOGS,
    expected: `requests with the word "${KEPT}" over the connection that the client keeps, answered meanwhile`,
    actual: String(kept),
    hint: 'The connection must be there before the table is full:',
    next: holdConnection(KEPT),
  })
  return { seconds, waited: hasWaited(fresh, gap), kept }
}

const gapIn = ({ notes }: CheckContext): z.infer<typeof gapNote> =>
  expectFound(notes.read(evidenceKey(STEP), gapNote), {
    inspect: SHOW_LOGS,
    expected: 'requests of the client from before, during and after a full table',
    next: SEND,
  })

/** Predict: what a new connection gets while the table is full. */
export function newConnectionAtFull(context: CheckContext): Truth {
  const { seconds, waited } = gapIn(context)
  return {
    accepts: [waited ? 'silence' : 'refused'],
    inspect: SHOW_LOGS,
    wrong: [
      {
        when: 'refused',
        because:
          'REJECT is a rule, and a packet that gets no entry is dropped before it comes to any. Your request was not refused: it waited.',
      },
      {
        when: 'an-answer',
        because:
          'An entry is needed to translate the replies, too. A packet that gets none is dropped, also where no rule would translate it.',
      },
    ],
    because: `For ${seconds} s no new connection was answered. The client's kernel sent its first packet again and again, and the first one that found room opened the connection.`,
  }
}

/** Question: which requests were answered while the table was full. */
export function answeredAtFull(context: CheckContext): Truth {
  const { kept } = gapIn(context)
  return {
    accepts: ['over-kept-connections'],
    inspect: SHOW_LOGS,
    wrong: [
      {
        when: 'none',
        because: `The connection that the client kept had its entry: ${kept} of its requests were answered meanwhile.`,
      },
      {
        when: 'all',
        because: 'A new connection needs a new entry, and there was no room for one.',
      },
    ],
    because:
      'That is why this fault is hard to see: what is open goes on, and only what begins waits.',
  }
}
