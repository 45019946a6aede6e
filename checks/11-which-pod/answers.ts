// What lab 11 predicts and asks about the choice of a Pod: the truth by the rules of the clients'
// nodes, with typical wrong answers.

import { predict } from '../../dataplane/predict.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { predictOptions } from '../../grading/evaluate.ts'
import { onNode } from '../../grading/failure.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import type { Truth } from '../../grading/question.ts'
import { type NodeView, objectsOf, stateOf } from '../../grading/snapshot.ts'
import {
  spreadByNode,
  spreadByZone,
  spreadEverywhere,
  spreadWithEmptyZone,
} from './distribution.ts'
import { localWithoutPod } from './local-policy.ts'
import { endpointsOfWeb } from './service-fields.ts'
import { chancesOf } from './spread.ts'
import { backendsByZone, type ZoneClient, type ZoneClients, zoneOfNode } from './zone-clients.ts'

const readRules = ({ node }: ZoneClient) =>
  onNode(node.name, "iptables -t nat -S | grep 'default/web'")

/** A share as a fraction if it is one of a small number of equal parts. */
function asFraction(share: number): string {
  const parts = Array.from({ length: 100 }, (_, index) => index + 1)
  const whole = parts.find((part) => Math.abs(share * part - Math.round(share * part)) < 1e-6)
  return whole === undefined ? String(share) : `${Math.round(share * whole)}/${whole}`
}

/**
 * Predict: the share of the client's requests that Pods of other zones answer, without a
 * preference.
 */
export function shareOfOtherZone(context: CheckContext): Truth {
  const clients = spreadEverywhere(context)
  const { service, near } = clients
  const { own, others } = backendsByZone(context.snapshot, service, near)
  const chances = chancesOf(clients, near)
  const share = others.reduce((sum, { address }) => sum + (chances.get(address) ?? 0), 0)
  return {
    accepts: [asFraction(share)],
    inspect: readRules(near),
    wrong: [
      {
        when: '0',
        because:
          'kube-proxy does not know which endpoint is near, unless the Service asks for it and the EndpointSlice has hints.',
      },
      {
        when: '1/2',
        because:
          'The choice is among Pods, not among zones. A zone with more of them gets more of the requests.',
      },
      {
        when: asFraction(own.length / service.backends.length),
        because: "That is the share of the client's own zone.",
      },
    ],
    because: `Each of the ${service.backends.length} Pods has the same probability, and ${others.length} of them ${others.length === 1 ? 'is' : 'are'} in the other zone.`,
  }
}

/** Predict: how many Pods the rules of the client's node choose from under PreferClose. */
export function podsInOwnZone(context: CheckContext): Truth {
  const clients = spreadByZone(context)
  const { service, near } = clients
  const count = chancesOf(clients, near).size
  const onNodeItself = service.backends.filter(({ node }) => node === near.node.name).length
  return {
    accepts: [String(count)],
    inspect: readRules(near),
    wrong: [
      {
        when: String(service.backends.length),
        because:
          'All of them were in the rules before. Now each endpoint has a hint for its zone, and kube-proxy leaves out those for other zones.',
      },
      {
        when: String(onNodeItself),
        because: 'That would be the same node. Close means the same zone here.',
      },
    ],
    because: `${near.zone} has ${count} ready Pods; the rules of ${near.node.name} no longer contain the others.`,
  }
}

/**
 * Question: the share of all requests that a Pod in client-b's zone answers, if each zone sends
 * half of them.
 */
export function shareInFarZone(context: CheckContext): Truth {
  const clients = spreadByZone(context)
  const { service, near, far } = clients
  const { own } = backendsByZone(context.snapshot, service, far)
  const [fromNear, fromFar] = [chancesOf(clients, near), chancesOf(clients, far)]
  const address = own[0]?.address ?? ''
  const share = ((fromNear.get(address) ?? 0) + (fromFar.get(address) ?? 0)) / 2
  return {
    accepts: [asFraction(share)],
    inspect: readRules(far),
    wrong: [
      {
        when: `1/${service.backends.length}`,
        because: 'That was the share before, when the clients of both zones chose among all Pods.',
      },
      {
        when: asFraction(1 / own.length),
        because: 'That is its share of the requests of its own zone, which are half of all.',
      },
    ],
    because: `Half of all requests come from ${far.zone}, and ${own.length === 1 ? 'one Pod answers' : `${own.length} Pods answer`} them. Hints distribute by zones and do not look at load: a zone with few Pods and many clients is overloaded.`,
  }
}

type FarAnswer = 'other-zone' | 'refused' | 'silence'

/** What client-b gets by the rules of its node. */
function endOfFarRequest({ snapshot }: CheckContext, clients: ZoneClients): FarAnswer | 'own-zone' {
  const { service, far } = clients
  const { outcomes, lost } = traceOf(far.node, far.client.sender, service)
  const { own } = backendsByZone(snapshot, service, far)
  if (outcomes.length > 0 && own.length === 0) return 'other-zone'
  if (outcomes.length > 0) return 'own-zone'
  return lost[0]?.verdict === 'reject' ? 'refused' : 'silence'
}

/** Predict: what client-b gets when its zone has no Pod of web, under PreferClose. */
export function answerWithEmptyZone(context: CheckContext): Truth {
  const clients = spreadWithEmptyZone(context)
  const { far } = clients
  return {
    accepts: [endOfFarRequest(context, clients)],
    inspect: readRules(far),
    wrong: [
      {
        when: 'refused',
        because:
          'That is what a Service without any endpoint does. This one has endpoints, and the preference ends where it would leave none.',
      },
      {
        when: 'silence',
        because:
          'That is what a policy would do. A hint is ignored if no endpoint has one for the own zone.',
      },
    ],
    because: `No endpoint is meant for ${far.zone}, so the kube-proxy of ${far.node.name} uses all of them.`,
  }
}

/** Predict: what client-b gets under internalTrafficPolicy Local without a Pod on its node. */
export function answerUnderLocal(context: CheckContext): Truth {
  const clients = localWithoutPod(context)
  const { far } = clients
  return {
    accepts: [endOfFarRequest(context, clients)],
    inspect: onNode(far.node.name, 'iptables -nvL KUBE-SERVICES'),
    wrong: [
      {
        when: 'other-zone',
        because:
          'That is what a preference does. The policy Local never leaves the node, and it comes before trafficDistribution.',
      },
      {
        when: 'refused',
        because:
          'kube-proxy rejects only for a Service without any endpoint. Here it writes a rule with the target DROP.',
      },
    ],
    because: `${far.node.name} has no endpoint of web, and the policy forbids all others: the packet is dropped.`,
  }
}

/** Predict: the kinds of hints at the endpoints of web under PreferSameNode. */
export function hintsOfSameNode(context: CheckContext): Truth {
  const clients = spreadByNode(context)
  const endpoints = endpointsOfWeb(context, clients.service)
  const kinds = [
    ...(endpoints.every(({ nodeHints }) => nodeHints.length > 0) ? ['forNodes'] : []),
    ...(endpoints.every(({ zoneHints }) => zoneHints.length > 0) ? ['forZones'] : []),
  ]
  return {
    accepts: [kinds.join(', ')],
    inspect: `kubectl get endpointslices -l kubernetes.io/service-name=${clients.service.name} -o yaml`,
    wrong: [
      {
        when: 'forNodes',
        because:
          'Then nothing would be left to prefer on a node without a Pod. The zone is the second choice, so the controller writes it, too.',
      },
      {
        when: 'forZones',
        because: 'A hint for the zone alone is PreferClose. kube-proxy looks for its node first.',
      },
    ],
    because: 'First the node, then the zone, then everything: both hints are needed for that.',
  }
}

/**
 * Question: where a request of the client would be answered if the Pod on its node were not ready,
 * by the prediction for that case.
 */
export function answerWithoutOwnPod(context: CheckContext): Truth {
  const clients = spreadByNode(context)
  const { near, service } = clients
  const zones = zonesWithout(context, clients, near)
  const isOwn = (zone: string) => zone === near.zone
  const accepted =
    zones.length === 0
      ? 'nowhere'
      : zones.every(isOwn)
        ? 'same-zone'
        : zones.some(isOwn)
          ? 'any-zone'
          : 'other-zone'
  return {
    accepts: [accepted],
    inspect: `kubectl get endpointslices -l kubernetes.io/service-name=${service.name} -o yaml`,
    wrong: [
      {
        when: 'nowhere',
        because:
          'That is internalTrafficPolicy Local. A preference ends where it would leave none.',
      },
      {
        when: 'any-zone',
        because: `All endpoints are used only if ${near.zone} has none either. Their hints for the zone are still there.`,
      },
      {
        when: 'other-zone',
        because: `${near.zone} has another Pod of web, and its hint for the zone fits.`,
      },
    ],
    because: `Without an endpoint for ${near.node.name}, kube-proxy looks for hints for ${near.zone}.`,
  }
}

/**
 * The zones of the Pods that the rules would lead the client to, if none on its node were ready.
 */
function zonesWithout(
  { snapshot }: CheckContext,
  { service }: ZoneClients,
  { node, client }: ZoneClient,
): string[] {
  const objects = objectsOf(snapshot)
  const unready = objects.endpointSlices.map((slice) =>
    slice.serviceName !== service.name
      ? slice
      : {
          ...slice,
          endpoints: slice.endpoints.map((endpoint) =>
            endpoint.nodeName === node.name
              ? { ...endpoint, ready: false, serving: false }
              : endpoint,
          ),
        },
  )
  const state = predictedWith(node, { ...objects, endpointSlices: unready })
  const { outcomes } = traceOf({ name: node.name, state }, client.sender, service)
  return service.backends
    .filter(({ address }) => outcomes.some(({ to }) => to.startsWith(`${address}:`)))
    .map((backend) => zoneOfNode(snapshot, backend.node))
}

/** The node with the rules that its kube-proxy would write for these objects. */
function predictedWith(node: NodeView, objects: ReturnType<typeof objectsOf>) {
  const { iptables, ipsets } = predict(objects, predictOptions(node, 'iptables'))
  return { ...stateOf(node), iptables, ipsets }
}
