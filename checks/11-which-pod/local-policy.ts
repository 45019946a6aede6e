// Lab 11: internalTrafficPolicy Local, which is a policy and no preference.

import { targetOf } from '../../dataplane/rule.ts'
import { type Check, type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectNode } from '../../grading/expect-node.ts'
import { expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { DROPPED_SECONDS, sendRequests, typedRequest } from '../../grading/requests.ts'
import { incidentRepaired } from '../08-incidents/lab-incident.ts'
import { emptyZone } from './distribution.ts'
import { expectInternalPolicy, requireKnown } from './service-fields.ts'
import { expectAnswersOf, expectWebChains } from './spread.ts'
import { LIST_PODS, type ZoneClients, zoneClients } from './zone-clients.ts'

const WHY =
  'Under Local a node uses its own endpoints only. Without one it drops the packet, because endpoints exist elsewhere; only a Service without any endpoint is rejected.'

const requireInternalPolicy = (context: CheckContext): void =>
  requireKnown(context, {
    field: 'internalTrafficPolicy',
    since: '1.22',
    has: ({ internalTrafficPolicy }) => internalTrafficPolicy !== 'ignored',
  })

/**
 * The incident of this lab, whose faults are policies: without them none can be started. One that
 * was repaired before stays so.
 */
export const policyIncidentRepaired: Check = async (context) => {
  try {
    await incidentRepaired(context)
  } catch (error) {
    requireInternalPolicy(context)
    throw error
  }
}

/** web with the policy Local, and no Pod on the node of client-b. */
export function localWithoutPod(context: CheckContext): ZoneClients {
  requireInternalPolicy(context)
  const clients = zoneClients(context)
  const { service, far } = clients
  expectInternalPolicy(service.service, 'Local')
  const own = service.backends.find(({ node }) => node === far.node.name)
  expectThat(own === undefined && service.backends.length > 0, {
    inspect: LIST_PODS,
    expected: `ready Pods of ${service.name}, and none of them on ${far.node.name}, the node of client-b`,
    actual: own ? `${own.pod} is there` : 'no ready Pod at all',
    next: emptyZone(clients),
  })
  return clients
}

/**
 * The client's node uses its own Pods, and client-b, whose node has none, gets no answer, not even
 * a refusal.
 */
export const nodeWithoutPodDrops = onceSeen('local-policy', async (context) => {
  const clients = localWithoutPod(context)
  const { service, near, far } = clients
  expectWebChains(context, clients)
  expectNode(far.node).packetReaches(far.client.sender, service, { backends: [] }, { why: WHY })
  const own = service.backends.filter(({ node }) => node === near.node.name)
  if (own.length > 0) await expectAnswersOf(context, clients, near, own, WHY)
  if (context.live) await expectSilence(clients, context.live)
  return {}
})

async function expectSilence(
  { service, far }: ZoneClients,
  live: NonNullable<CheckContext['live']>,
): Promise<void> {
  const { address, port } = service
  const request = { address, port, seconds: DROPPED_SECONDS }
  const [sent] = await sendRequests(live, far.client, [request])
  const reply = sent?.replies[0]
  const isSilent = reply?.status === 0 && !/refused|reset/i.test(reply.error)
  expectThat(isSilent, {
    node: far.node.name,
    inspect: typedRequest(far.client, { ...request, seconds: 3 }),
    expected: 'no answer and no refusal, only a timeout',
    actual: reply?.status ? `an answer with status ${reply.status}` : (reply?.error ?? 'nothing'),
    why: WHY,
  })
}

/** Question: the target of the rule about web in the filter table of client-b's node. */
export function targetWithoutPod(context: CheckContext): Truth {
  const { service, far } = localWithoutPod(context)
  const chains = evaluate(far.node, 'iptables').expected.iptables.get('filter')
  const rule = [...(chains?.values() ?? [])]
    .flatMap(({ rules }) => rules)
    .find(({ spec }) => spec.includes(`-d ${service.address}/32 `))
  const target = rule && targetOf(rule.spec)
  if (target === undefined)
    throw new NotApplicable(`this version writes no rule about ${service.name} in filter`)
  return {
    accepts: [target],
    inspect: onNode(far.node.name, 'iptables -S KUBE-SERVICES'),
    wrong: [
      {
        when: target === 'DROP' ? 'REJECT' : 'DROP',
        because:
          'REJECT is for a Service without any endpoint. This one has endpoints on other nodes, and the comment of the rule says so.',
      },
    ],
    because:
      'A client that is refused at once may try elsewhere; one whose packets are dropped waits until its timeout.',
  }
}
