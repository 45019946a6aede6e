// Lab 10: Pods that are being deleted and still serve: what the EndpointSlice says of them, and
// which packets still reach them.

import {
  type CheckContext,
  type EvidenceCheck,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { featuresOn } from '../../grading/evaluate.ts'
import { allPodsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import { type TimedRequest, timedRequests } from './access-log.ts'
import {
  expectReady,
  expectShopProgrammed,
  holdConnection,
  LIST_ENDPOINTS,
  newConnectionsGoTo,
  type Shop,
  type ShopEndpoint,
  shopClient,
  shopService,
} from './shop.ts'

const isLeaving = ({ ready, serving, terminating }: ShopEndpoint) =>
  !ready && serving && terminating

const LINGER =
  'kubectl patch deployment shop --patch-file labs/10-connections/manifests/linger.yaml'

/** shop with an endpoint that terminates and still serves. */
export function shopWithLeaving({ snapshot }: CheckContext): Shop & { leaving: ShopEndpoint[] } {
  const shop = shopService(snapshot)
  const leaving = shop.endpoints.filter(isLeaving)
  expectThat(leaving.length > 0, {
    inspect: LIST_ENDPOINTS,
    expected: 'an endpoint of shop that terminates and still serves',
    actual: 'none',
    hint: `Only a Pod with a preStop hook serves after its deletion: \`${LINGER}\`, then delete a Pod:`,
    next: 'kubectl delete pod POD --wait=false',
  })
  return { ...shop, leaving }
}

/** KEP-1669 is since 1.26. */
export function requireTerminatingEndpoints({ nodes }: CheckContext): void {
  if (nodes.some((node) => !featuresOn(node).terminatingEndpoints))
    throw new NotApplicable('kube-proxy uses terminating endpoints since 1.26 only')
}

/** The requests with a learner's word that Pods of shop have answered after they were deleted. */
export async function lateRequests(
  { live, snapshot }: LiveContext,
  word: string,
): Promise<TimedRequest[]> {
  const deletedAt = new Map(
    allPodsWithLabel(snapshot, 'shop').flatMap(({ metadata }) => {
      const { name, deletionTimestamp, deletionGracePeriodSeconds } = metadata
      if (!deletionTimestamp) return []
      const graceMs = (deletionGracePeriodSeconds ?? 0) * 1000
      return [[name, Date.parse(deletionTimestamp) - graceMs]]
    }),
  )
  const requests = await timedRequests(live, [...deletedAt.keys()], word)
  // Both times are whole seconds.
  return requests.filter(({ pod, at }) => at >= (deletedAt.get(pod) ?? Number.POSITIVE_INFINITY))
}

/**
 * Evidence: a Pod of shop has answered a request of the client's with this word after its deletion.
 */
export const lateRequestOfClient =
  (word: string, next: string): EvidenceCheck =>
  async (context): Promise<TimedRequest> => {
    const { client } = shopClient(context.snapshot)
    const requests = await lateRequests(context, word)
    return expectFound(
      requests.findLast((request) => request.client === client.address),
      {
        inspect: `kubectl logs -l app=shop --prefix | grep ${word}`,
        expected: `a request of the Pod client with the word "${word}" that a Pod answered after its deletion`,
        next,
      },
    )
  }

/**
 * An endpoint terminates, another one is ready, and rules lead new connections to ready ones only.
 */
export const rulesLeaveItOut = onceSeen('terminating', async (context: CheckContext) => {
  const { snapshot } = context
  const shop = shopWithLeaving(context)
  expectReady(shop, 1)
  expectShopProgrammed(context)
  const goals = newConnectionsGoTo(snapshot)
  const { node } = shopClient(snapshot)
  const wrong = shop.leaving.find(({ address }) => goals.includes(address))
  expectThat(!wrong && goals.length > 0, {
    node: node.name,
    inspect: onNode(node.name, "iptables -t nat -S | grep 'default/shop -> '"),
    expected: 'rules that lead new connections to ready endpoints only',
    actual: wrong ? `${wrong.address} is among them` : 'no endpoint at all',
  })
  return {}
})

/** Evidence: a kept connection of the client still reaches the Pod that was deleted. */
export const keptConnectionGoesOn = lateRequestOfClient('held', holdConnection('held'))

/** Predict: the conditions that are true for the endpoint of a Pod in its preStop hook. */
export function conditionsOfLeaving(context: CheckContext): Truth {
  const [first] = shopWithLeaving(context).leaving
  const names = (['ready', 'serving', 'terminating'] as const).filter((name) => first?.[name])
  return {
    accepts: [names.join(', ')],
    inspect: LIST_ENDPOINTS,
    wrong: [
      {
        when: (answer) => /\bready\b/.test(answer),
        because:
          'The Pod is still ready, but an endpoint of a Pod that is being deleted is never ready. That is what serving was added for.',
      },
      {
        when: (answer) => !answer.includes('serving'),
        because:
          'serving is the readiness of the Pod, whether it is being deleted or not. Its program listens until the hook has ended.',
      },
    ],
    because:
      'serving says whether it answers, terminating that it will end, ready that both are fine.',
  }
}

/** Question: which requests of the client reach the Pod that was deleted. */
export function whatReachesLeaving(context: CheckContext): Truth {
  const { leaving } = shopWithLeaving(context)
  const goals = newConnectionsGoTo(context.snapshot)
  const isChosen = leaving.some(({ address }) => goals.includes(address))
  return {
    accepts: [isChosen ? 'all' : 'over-kept-connections'],
    inspect: 'kubectl logs -l app=shop --prefix --tail=3',
    wrong: [
      {
        when: 'none',
        because:
          'Its log shows them. The connection was translated by its first packet, and conntrack keeps that for all others.',
      },
      {
        when: 'all',
        because: 'The rules of the chain KUBE-SVC- no longer list it.',
      },
    ],
    because: 'Rules are for first packets. What follows is translated by the entry in conntrack.',
  }
}

/** Every endpoint terminates, and rules lead to those that still serve. */
export const rulesUseLeaving = onceSeen('last', async (context: CheckContext) => {
  requireTerminatingEndpoints(context)
  const { endpoints } = shopWithLeaving(context)
  const ready = endpoints.find((endpoint) => endpoint.ready)
  expectThat(!ready, {
    inspect: LIST_ENDPOINTS,
    expected: 'no ready endpoint of shop: all Pods are being deleted',
    actual: `${ready?.pod} is ready`,
    next: 'kubectl scale deployment shop --replicas=0',
  })
  expectShopProgrammed(context)
  return {}
})

/** Evidence: the client has got an answer from a Pod that was deleted, over a new connection. */
export const answeredByLast = lateRequestOfClient(
  'last',
  'kubectl exec client -- curl -s "http://$SHOP/?last"',
)

/** Predict: what a new connection gets while every Pod of shop is being deleted. */
export function answerOfLast(context: CheckContext): Truth {
  const goals = newConnectionsGoTo(context.snapshot)
  return {
    accepts: [goals.length > 0 ? 'an-answer' : 'refused'],
    inspect: LIST_ENDPOINTS,
    wrong: [
      {
        when: 'refused',
        because:
          'That is what a Service without endpoints does. These are not ready, but they still serve, and that is better than nothing.',
      },
      {
        when: 'silence',
        because: 'Nothing drops the packet: the rules lead to Pods that still listen.',
      },
    ],
    because:
      'kube-proxy uses terminating endpoints that serve if there is no ready one (KEP-1669).',
  }
}
