// Lab 10: a node whose conntrack table is full.

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
import { timedRequests } from './access-log.ts'
import {
  expectReady,
  expectShopProgrammed,
  holdConnection,
  shopClient,
  shopService,
} from './shop.ts'

const STEP = 'full'
const KEPT = 'window'
/** A table that is larger is not filled: each entry takes some hundred bytes of the kernel's memory. */
const LARGEST = 65_536
/** The client sends two requests in a second. */
const RECENT_SECONDS = 5
const COUNTERS =
  'cat /proc/sys/net/netfilter/nf_conntrack_count /proc/sys/net/netfilter/nf_conntrack_max; conntrack -S'
const FILL = '"$(cat labs/10-connections/fill-conntrack.sh)"'

interface FlowTable {
  count: number
  max: number
  /** Packets that were dropped because no entry could be made. */
  dropped: number
  /** The node's clock, in milliseconds since 1970. */
  now: number
}

async function readTable({ live }: LiveContext, node: string): Promise<FlowTable> {
  const { stdout } = await live.readOnNode(node, `date +%s; ${COUNTERS}`)
  const [now = 0, count = 0, max = 0] = stdout.split('\n').slice(0, 3).map(Number)
  const drops = [...stdout.matchAll(/ drop=(\d+)/g)].map(([, value]) => Number(value))
  return { count, max, dropped: drops.reduce((sum, value) => sum + value, 0), now: now * 1000 }
}

/** Nearly every entry is in use: those that end make room for a moment. */
function expectFull(node: string, { count, max }: FlowTable): void {
  expectThat(count >= max * 0.99, {
    node,
    inspect: onNode(node, COUNTERS),
    expected: `a full table: ${max} entries`,
    actual: `${count} entries`,
    next: `make exec NODE=${node} CMD=${FILL}`,
  })
}

/** shop has two ready Pods, every node has its rules, and the table of the client's node is full. */
export const tableIsFull = onceSeen(STEP, async (context: CheckContext) => {
  const { snapshot, live } = context
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  if (!live) return {}
  const { node } = shopClient(snapshot)
  const table = await readTable({ ...context, live }, node.name)
  const { max } = table
  if (max > LARGEST)
    throw new NotApplicable(
      `nf_conntrack_max is ${max} here, and a lab fills no table of more than ${LARGEST} entries`,
    )
  expectFull(node.name, table)
  return { max }
})

const fullNote = z.looseObject({ dropped: z.number(), kept: z.number() })

/** Evidence: packets of new connections were dropped, and the client's kept connection is answered all the same. */
export const newConnectionsDropped: EvidenceCheck = async (context) => {
  const { live, snapshot, show } = context
  const { client, node } = shopClient(snapshot)
  const { count, max, dropped, now } = await readTable(context, node.name)
  show([`${count} of ${max} entries, ${dropped} packets dropped`])
  const advice = { node: node.name, inspect: onNode(node.name, COUNTERS) }
  expectThat(dropped > 0, {
    ...advice,
    expected: 'packets that were dropped because they got no entry',
    actual: 'none',
    hint: 'Open a new connection while the table is full:',
    next: 'kubectl exec client -- curl -s --max-time 3 "http://$SHOP/?squeezed"',
  })
  const pods = podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)
  const requests = await timedRequests(live, pods, KEPT)
  const kept = requests.filter(
    (request) => request.client === client.address && request.at > now - RECENT_SECONDS * 1000,
  ).length
  expectThat(kept > 0, {
    inspect: `kubectl logs -l app=shop --prefix | grep ${KEPT}`,
    expected: `requests of the client over the connection with the word "${KEPT}" that it keeps`,
    actual: `none in the last ${RECENT_SECONDS} s`,
    hint: 'The connection must be there before the table is full:',
    next: holdConnection(KEPT),
  })
  return { dropped, kept }
}

const fullIn = ({ notes }: CheckContext): z.infer<typeof fullNote> =>
  expectFound(notes.read(evidenceKey(STEP), fullNote), {
    inspect: onNode('…', COUNTERS),
    expected: 'a full table, seen while it was full',
    next: 'make check-10 STEP=full',
  })

/** Predict: what a new connection gets while the table is full. */
export function newConnectionAtFull(context: CheckContext): Truth {
  const { dropped } = fullIn(context)
  return {
    accepts: [dropped > 0 ? 'silence' : 'an-answer'],
    inspect: onNode(shopClient(context.snapshot).node.name, COUNTERS),
    wrong: [
      {
        when: 'refused',
        because: 'A packet that gets no entry is dropped before any rule could reject it.',
      },
      {
        when: 'an-answer',
        because:
          'A packet that is not tracked cannot be translated, so the kernel does not let it pass.',
      },
    ],
    because: `${dropped} packets were dropped, and the client's kernel sent its SYN again and again. In the log of the node's kernel: "table full, dropping packet".`,
  }
}

/** Question: which requests are answered while the table is full. */
export function answeredAtFull(context: CheckContext): Truth {
  const { kept } = fullIn(context)
  return {
    accepts: [kept > 0 ? 'over-kept-connections' : 'none'],
    inspect: `kubectl logs -l app=shop --prefix --tail=-1 | grep ${KEPT}`,
    wrong: [
      {
        when: 'none',
        because: `The connection that the client keeps has its entry: ${kept} of its requests were answered in the last ${RECENT_SECONDS} s.`,
      },
      {
        when: 'all',
        because: 'A new connection needs a new entry, and there was no room for one.',
      },
    ],
    because:
      'That is why this fault is so hard to see: what runs goes on, and only what begins waits.',
  }
}
