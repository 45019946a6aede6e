// Lab 10: packets that conntrack takes for no part of a connection (INVALID), with and without
// kube-proxy's rule that drops them.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { configOf, featuresOn } from '../../grading/evaluate.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { type TimedRequest, timedRequests } from './access-log.ts'
import { expectReady, expectShopProgrammed, shopClient, shopService } from './shop.ts'

const STEP = 'invalid'
const IS_INVALID = '--ctstate INVALID'
const ACCEPTS = '-j ACCEPT'
/** The program of the step tells in the log of its Pod what the client did. */
const RESET = 'invalid-reset'
const UNANSWERED = 'invalid-unanswered'
const SHOW_LOGS = 'kubectl logs -l app=shop --prefix --tail=-1 | grep invalid-'
const COMMENT = 'lab-10-invalid'
const COUNT = `iptables -nvL FORWARD | grep ${COMMENT}`
const SEND =
  'for P in $(kubectl get pods -l app=shop -o name); do kubectl exec $P -- perl -e "$(cat labs/10-connections/out-of-window.pl)" $CLIENT 1000000; done'

/**
 * Every node drops INVALID packets, as kube-proxy writes it; rules of the learner count them before
 * that, and none accepts them.
 */
export const rulesDropInvalid = onceSeen(STEP, async (context: CheckContext) => {
  const { nodes, snapshot } = context
  if (
    nodes.some((node) => featuresOn(node).liberalConntrack) &&
    configOf(snapshot).conntrackTCPLiberal
  )
    throw new NotApplicable('kube-proxy runs with conntrack.tcpBeLiberal, and writes no such rule')
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  const { client } = shopClient(snapshot)
  for (const node of nodes) expectOnlyCounted(node, client.address)
  return {}
})

/**
 * The node has the learner's rule that counts INVALID packets for the client, and none that accepts
 * them.
 */
function expectOnlyCounted(node: NodeView, client: string): void {
  const rules = stateOf(node).iptables.get('filter')?.get('FORWARD')?.rules ?? []
  const invalid = rules.map(({ spec }) => spec).filter((spec) => spec.includes(IS_INVALID))
  const accepting = invalid.find((spec) => spec.includes(ACCEPTS))
  const inspect = onNode(node.name, 'iptables -S FORWARD')
  expectThat(!accepting, {
    node: node.name,
    inspect,
    expected: 'no rule of yours that accepts INVALID packets',
    actual: accepting ?? '',
    next: onNode(node.name, `iptables -D FORWARD ${accepting ?? ''}`),
  })
  expectThat(
    invalid.some((spec) => spec.includes(COMMENT) && !spec.includes(' -j ')),
    {
      node: node.name,
      inspect,
      expected: 'a rule of yours that only counts INVALID packets for the client',
      actual: 'none',
      next: onNode(
        node.name,
        `iptables -I FORWARD -d ${client} -m conntrack ${IS_INVALID} -m comment --comment ${COMMENT}`,
      ),
    },
  )
}

/** What a Pod tells about a packet that it sent to the client. */
async function sentPackets({ live, snapshot }: LiveContext): Promise<TimedRequest[]> {
  const pods = podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)
  return timedRequests(live, pods, 'invalid-')
}

const packetsNote = z.looseObject({ droppedOn: z.array(z.string()) })

/**
 * Evidence: the client's kernel has answered a packet with a reset, and a later one has not reached
 * it.
 */
export const packetsOutOfWindow: EvidenceCheck = async (context) => {
  const sent = await sentPackets(context)
  const reset = expectFound(
    sent.find(({ marker }) => marker === RESET),
    {
      inspect: SHOW_LOGS,
      expected: `a packet that the client has answered with a reset, logged as "${RESET}"`,
      actual: sent.length === 0 ? 'no packet' : 'only packets without an answer',
      hint: 'The first packet has to pass: begin with the rule of this step’s section that accepts it on every node.',
      next: SEND,
    },
  )
  const pods = sent
    .filter(({ marker, at }) => marker === UNANSWERED && at > reset.at)
    .map(({ pod }) => pod)
  expectThat(pods.length > 0, {
    inspect: SHOW_LOGS,
    expected: `a later packet without an answer, logged as "${UNANSWERED}"`,
    actual: 'none',
    hint: 'Without your rule that accepts INVALID packets, and while the client keeps its connection:',
    next: SEND,
  })
  const senders = podsWithLabel(context.snapshot, 'shop').filter(({ metadata }) =>
    pods.includes(metadata.name),
  )
  return { droppedOn: [...new Set(senders.map(({ spec }) => spec?.nodeName ?? ''))] }
}

const packetsIn = ({ notes }: CheckContext): z.infer<typeof packetsNote> =>
  expectFound(notes.read(evidenceKey(STEP), packetsNote), {
    inspect: SHOW_LOGS,
    expected: 'two packets of your own outside of the window',
    next: SEND,
  })

/** Predict: what the client's kernel does with a packet that was not translated. */
export function answerToInvalid(context: CheckContext): Truth {
  packetsIn(context)
  return {
    accepts: ['answer-with-a-reset'],
    inspect: SHOW_LOGS,
    wrong: [
      {
        when: 'take-it',
        because:
          'Its connection is with the ClusterIP. This packet comes from the address of a Pod, so it is for no connection that the client has.',
      },
      {
        when: 'ignore-it',
        because: 'TCP answers what belongs to no connection, so that the other side knows.',
      },
    ],
    because:
      'The reset reaches the Pod, for which it belongs to the connection. The Pod forgets it, and so the client’s next request is reset in turn.',
  }
}

/** Question: which node has dropped the second packet. */
export function whereItWasDropped(context: CheckContext): Truth {
  const { droppedOn } = packetsIn(context)
  const { node } = shopClient(context.snapshot)
  return {
    accepts: droppedOn,
    inspect: onNode('…', COUNT),
    wrong: [
      {
        when: node.name,
        because:
          'That is where the connection was translated. But the packet came from the Pod, and each node on its way has an entry of its own for the connection.',
      },
    ],
    because:
      'The node of the Pod is the first one on its way. conntrack follows the windows of TCP there, too.',
  }
}
