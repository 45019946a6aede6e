// Lab 10: a connection stays with the Pod of its first packet.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { ownRequest, ownRequestIn } from '../../grading/own-request.ts'
import { timedRequests } from './access-log.ts'
import {
  expectReady,
  expectShopProgrammed,
  holdConnection,
  newConnectionsGoTo,
  shopClient,
  shopService,
} from './shop.ts'

const WORD = 'held'

/** The rules of the client's node lead to at least two Pods of shop. */
export const rulesLeadToSeveral = onceSeen('pinned', async (context: CheckContext) => {
  const { snapshot } = context
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  const { node } = shopClient(snapshot)
  const goals = newConnectionsGoTo(snapshot)
  expectThat(goals.length >= 2, {
    node: node.name,
    inspect: onNode(node.name, "iptables -t nat -S | grep 'default/shop -> '"),
    expected: 'rules that lead to two Pods of shop',
    actual: `to ${goals.join(', ') || 'none'}`,
  })
  return {}
})

const pinnedNote = z.looseObject({ requests: z.number(), pods: z.number() })

const pinnedRequest = ownRequest({ from: 'pod', to: 'shop', word: WORD })

/**
 * Evidence: several requests of the client over one connection, and the Pods that answered them.
 */
export const pinnedRequests: EvidenceCheck = async (context) => {
  const { live, snapshot } = context
  const request = await pinnedRequest(context)
  const { client } = shopClient(snapshot)
  const pods = podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)
  const logged = await timedRequests(live, pods, WORD)
  const own = logged.filter((one) => one.client === client.address)
  const requests = own.length
  expectThat(requests >= 5 && 'connection' in request, {
    inspect: `kubectl logs -l app=shop --prefix | grep ${WORD}`,
    expected: 'five requests of the client over one connection that is still open',
    actual: `${requests} requests`,
    next: holdConnection(WORD),
  })
  return { ...request, requests, pods: new Set(own.map(({ pod }) => pod)).size }
}

/** Predict: how many Pods answer requests over one connection. */
export function podsOfOneConnection({ notes, snapshot }: CheckContext): Truth {
  const { pods, requests } = expectFound(notes.read(evidenceKey('pinned'), pinnedNote), {
    inspect: `kubectl logs -l app=shop --prefix | grep ${WORD}`,
    expected: 'requests of your own over one connection',
  })
  return {
    accepts: [String(pods)],
    inspect: `kubectl logs -l app=shop --prefix | grep ${WORD}`,
    wrong: [
      {
        when: String(shopService(snapshot).endpoints.length),
        because:
          'A Service chooses for each connection, not for each request. HTTP keeps the connection for the next one.',
      },
    ],
    because: `All ${requests} came over one connection. More Pods would not have got any of them.`,
  }
}

/** Question: the address from which the entry of this connection expects replies. */
export function sourceOfReplies({ notes, snapshot }: CheckContext): Truth {
  const { node } = shopClient(snapshot)
  const inspect = onNode(node.name, 'conntrack -L -p tcp --state ESTABLISHED')
  const { connection, backend } = expectFound(ownRequestIn(notes, 'pinned'), {
    inspect,
    expected: 'requests of your own over one connection',
  })
  return {
    accepts: [connection?.reply.source ?? backend.address],
    inspect,
    wrong: [
      {
        when: connection?.original.destination ?? '',
        because:
          'That is the destination of the first half, as the client sent it. Replies are sent by a Pod.',
      },
    ],
    because:
      'The entry has the Pod as the source of replies, so every packet of this connection is translated to that Pod, whatever the rules are by now.',
  }
}
