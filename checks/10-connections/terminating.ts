// Lab 10: Pods that are being deleted and still serve: what the EndpointSlice says of them, and which packets still reach them.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { featuresOn } from '../../grading/evaluate.ts'
import { allPodsWithLabel, WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { expectFound, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { fromNode, sendRequests } from '../../grading/requests.ts'
import { controlPlaneOf, nodeAddressOf, stateOf } from '../../grading/snapshot.ts'
import {
  clientOf,
  expectProgrammed,
  expectReady,
  LIST_ENDPOINTS,
  newConnectionsGoTo,
  type Shop,
  type ShopEndpoint,
  shopService,
} from './shop.ts'

const isLeaving = ({ ready, serving, terminating }: ShopEndpoint) =>
  !ready && serving && terminating

const LINGER =
  'kubectl patch deployment shop --patch-file labs/10-connections/manifests/linger.yaml'

/** shop with an endpoint that terminates and still serves. */
function shopWithLeaving({ snapshot }: CheckContext): Shop & { leaving: ShopEndpoint[] } {
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
function requireTerminatingEndpoints({ nodes }: CheckContext): void {
  if (nodes.some((node) => !featuresOn(node).terminatingEndpoints))
    throw new NotApplicable('kube-proxy uses terminating endpoints since 1.26 only')
}

const deletedPod = z.object({
  metadata: z.object({
    deletionTimestamp: z.string(),
    deletionGracePeriodSeconds: z.number().nullish(),
  }),
})
const LOGGED = /^(\S+) - - \[(\d+)\/(\w+)\/(\d+):([\d:]+) (\S+)\] "GET \/\?(\S+) HTTP/

/** A request that a Pod has answered after its deletion. */
interface LateRequest {
  pod: string
  client: string
  marker: string
}

/** The requests with a learner's word that Pods of shop have answered after they were deleted. */
async function lateRequests({ live, snapshot }: LiveContext, word: string): Promise<LateRequest[]> {
  const deleted = allPodsWithLabel(snapshot, 'shop').flatMap((object) => {
    const { metadata } = deletedPod.safeParse(object).data ?? {}
    if (!metadata) return []
    const grace = metadata.deletionGracePeriodSeconds ?? 0
    const at = Date.parse(metadata.deletionTimestamp) - grace * 1000
    return [{ pod: object.metadata.name, at }]
  })
  const logs = deleted.map(async ({ pod, at }) => {
    const log = await live.log({ namespace: WEB_NAMESPACE, name: pod }, 3600)
    return log.split('\n').flatMap((line): LateRequest[] => {
      const [, client = '', day, month, year, time, zone, marker = ''] = LOGGED.exec(line) ?? []
      const isLate = Date.parse(`${day} ${month} ${year} ${time} ${zone}`) > at
      return isLate && marker.startsWith(word) ? [{ pod, client, marker }] : []
    })
  })
  return (await Promise.all(logs)).flat()
}

/** Evidence: a Pod of shop has answered a request of the client's with this word after its deletion. */
const lateRequestOfClient =
  (word: string, next: string): EvidenceCheck =>
  async (context): Promise<LateRequest> => {
    const { client } = clientOf(context.snapshot)
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

/** Requests over one connection, two in a second, in the background of the Pod client. */
const heldRequests = (word: string) =>
  `kubectl exec client -- sh -c "curl -s -o /dev/null --rate 2/s 'http://$SHOP/?${word}[1-600]' >/dev/null 2>&1 &"`

/** An endpoint terminates, another one is ready, and rules lead new connections to ready ones only. */
export const rulesLeaveItOut = onceSeen('terminating', async (context: CheckContext) => {
  const { snapshot } = context
  const shop = shopWithLeaving(context)
  expectReady(shop, 1)
  expectProgrammed(context, 'iptables')
  const goals = newConnectionsGoTo(snapshot)
  const { node } = clientOf(snapshot)
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
export const keptConnectionGoesOn = lateRequestOfClient('held', heldRequests('held'))

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

const localNote = z.object({
  health: z.number(),
  answeredBy: z.enum(['the-deleted-pod', 'a-ready-pod']),
})
type LocalNote = z.infer<typeof localNote>

/** A node whose only endpoints of shop terminate, while another node has a ready one. */
function nodeThatEmpties(context: CheckContext): { node: string; shop: Shop } {
  requireTerminatingEndpoints(context)
  const shop = shopWithLeaving(context)
  expectReady(shop, 1)
  expectThat(
    shop.service.externalTrafficPolicy === 'Local' && shop.service.healthCheckNodePort > 0,
    {
      inspect: 'kubectl get service shop -o yaml',
      expected: 'shop with externalTrafficPolicy Local and a health check port',
      actual: `the policy ${shop.service.externalTrafficPolicy}`,
      next: 'kubectl apply -f labs/10-connections/manifests/shop.yaml',
    },
  )
  const found = shop.leaving.find(
    ({ node }) => !shop.endpoints.some((one) => one.node === node && one.ready),
  )
  const { node } = expectFound(found, {
    inspect: 'kubectl get pods -l app=shop -o wide',
    expected: 'a node on which every Pod of shop is being deleted',
    actual: 'a ready one beside it',
    next: 'kubectl cordon NODE',
  })
  return { node, shop }
}

/** A node port leads to the Pod that is being deleted, because its node has no other one. */
export const nodePortUsesLeaving = onceSeen('local', async (context: CheckContext) => {
  const { node, shop } = nodeThatEmpties(context)
  expectProgrammed(context, 'iptables')
  const { snapshot } = context
  const target = {
    address: nodeAddressOf(snapshot, node),
    port: shop.service.ports[0]?.nodePort ?? 0,
  }
  const { outcomes } = traceOf(snapshot.node(node), { outside: '203.0.113.9' }, target)
  expectThat(outcomes.length > 0, {
    node,
    inspect: onNode(node, 'iptables -t nat -S | grep KUBE-SVL'),
    expected: 'rules that lead a request to the node port to a Pod of this node',
    actual: 'none',
  })
  return { node }
})

/** Evidence: the status of the health check port, and who has answered the learner's request to the node port. */
export const nodePortAndHealth: EvidenceCheck = async (context): Promise<LocalNote> => {
  const { live, snapshot } = context
  const { node, shop } = nodeThatEmpties(context)
  const other = controlPlaneOf(snapshot)?.name ?? ''
  const address = nodeAddressOf(snapshot, node)
  const port = shop.service.healthCheckNodePort
  const [sent] = await sendRequests(live, fromNode(other), [{ address, port }])
  const health = sent?.replies[0]?.status ?? 0
  expectThat(health > 0, {
    node,
    inspect: onNode(other, `curl -i http://${address}:${port}`),
    expected: 'a status from the health check port',
    actual: 'no answer',
  })
  const late = (await lateRequests(context, 'near')).findLast(
    ({ client }) => client === nodeAddressOf(snapshot, other),
  )
  const { pod } = expectFound(late, {
    inspect: 'kubectl logs -l app=shop --prefix | grep near',
    expected: `a request of ${other} with the word "near" to the node port of ${node}`,
    next: onNode(other, `curl -s http://${address}:${shop.service.ports[0]?.nodePort}/?near`),
  })
  const isLeft = shop.endpoints.some((one) => one.pod === pod && one.terminating)
  return { health, answeredBy: isLeft ? 'the-deleted-pod' : 'a-ready-pod' }
}

function localFacts({ notes }: CheckContext): LocalNote {
  return expectFound(notes.read(evidenceKey('local'), localNote), {
    inspect: 'kubectl logs -l app=shop --prefix | grep near',
    expected: 'a request of your own to the node port',
  })
}

/** Predict: the status of the health check port of a node whose only Pod is being deleted. */
export function healthWhileLeaving(context: CheckContext): Truth {
  const { health } = localFacts(context)
  return {
    accepts: [String(health)],
    inspect: "kubectl get service shop -o jsonpath='{.spec.healthCheckNodePort}'",
    wrong: [
      {
        when: health === 503 ? '200' : '503',
        because:
          'The status counts ready endpoints of the node, and one that terminates is not ready. The load balancer is to send no new connections.',
      },
    ],
    because: 'The load balancer stops at its next check. Until then it goes on sending.',
  }
}

/** Question: who answers a new connection to that node port. */
export function nodePortAnsweredBy(context: CheckContext): Truth {
  const { answeredBy } = localFacts(context)
  return {
    accepts: [answeredBy],
    inspect: 'kubectl logs -l app=shop --prefix | grep near',
    wrong: [
      {
        when: 'a-ready-pod',
        because:
          'The policy Local forbids the Pods of all other nodes, and this node has no ready one.',
      },
      {
        when: 'none',
        because:
          'Before 1.26 it was dropped. Now kube-proxy falls back to endpoints that terminate and still serve (KEP-1669).',
      },
    ],
    because:
      'Between the deletion and the next health check a load balancer still sends connections here. They are answered, not lost.',
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
  expectProgrammed(context, 'iptables')
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

/** In IPVS mode the virtual server of shop keeps the terminating endpoint with weight 0, and the ready ones with weight 1. */
export const leavingHasNoWeight = onceSeen('weight', async (context: CheckContext) => {
  const shop = shopWithLeaving(context)
  expectReady(shop, 1)
  expectProgrammed(context, 'ipvs')
  expectFound(leavingWeight(context, shop), {
    inspect: 'make exec CMD="ipvsadm -Ln"',
    expected: 'the deleted Pod among the real servers of shop',
    actual: 'only ready ones: no connection to it was open when it was deleted',
    next: heldRequests('ipvs'),
  })
  return {}
})

/** The weight of a terminating endpoint behind the ClusterIP, on a node that still has it. */
function leavingWeight(
  { nodes }: CheckContext,
  { address, leaving }: Shop & { leaving: ShopEndpoint[] },
): number | undefined {
  return nodes
    .flatMap((node) => stateOf(node).virtualServers)
    .filter((server) => server.address === address)
    .flatMap(({ realServers }) => realServers)
    .find((real) => leaving.some((endpoint) => endpoint.address === real.address))?.weight
}

/** Evidence: a kept connection of the client goes on through IPVS after the Pod was deleted. */
export const ipvsConnectionGoesOn = lateRequestOfClient('ipvs', heldRequests('ipvs'))

/** Predict: the weight of the real server whose Pod is being deleted. */
export function weightOfLeaving(context: CheckContext): Truth {
  const shop = shopWithLeaving(context)
  return {
    accepts: [String(leavingWeight(context, shop) ?? '')],
    inspect: 'make exec CMD="ipvsadm -Ln"',
    wrong: [
      {
        when: '1',
        because: 'With that weight the scheduler would choose it for new connections.',
      },
      {
        when: (answer) => /^(?:none|deleted|-)$/.test(answer),
        because:
          'Deleting a real server would end its connections: kube-proxy does that once none is left.',
      },
    ],
    because:
      'The scheduler passes over a real server of weight 0. Connections that exist have their own entry, and go on.',
  }
}
