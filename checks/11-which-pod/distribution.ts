// Lab 11: spec.trafficDistribution, the hints that follow from it, and who answers.

import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { expectThat } from '../../grading/failure.ts'
import { expectDistribution, expectHints, requireKnown } from './service-fields.ts'
import { expectAnswersOf, expectWebChains } from './spread.ts'
import { backendsByZone, LIST_PODS, ZONE, type ZoneClients, zoneClients } from './zone-clients.ts'

/** Since 1.34 the value has a second, clearer name (KEP-3015). */
const SAME_ZONE = ['PreferClose', 'PreferSameZone']
const SAME_NODE = 'PreferSameNode'

const WHY_EVERYWHERE =
  'Without the field each ready endpoint has the same probability, wherever it is.'
const WHY_ZONE =
  'kube-proxy leaves out endpoints that are meant for other zones, if one is left for its own.'
const WHY_FALLBACK =
  'No endpoint has a hint for the zone, so kube-proxy uses all of them: a preference is no policy.'
const WHY_NODE = 'Hints for the node come before hints for the zone.'

const requireZones = (context: CheckContext) =>
  requireKnown(context, {
    field: 'trafficDistribution',
    since: '1.31',
    has: ({ zoneHints }) => zoneHints === 'always',
  })

const requireNodes = (context: CheckContext) =>
  requireKnown(context, {
    field: `trafficDistribution ${SAME_NODE}`,
    since: '1.34',
    has: ({ nodeHints }) => nodeHints,
  })

const SPREAD = podTemplate({ nodeSelector: null })

/** A patch of the Pods of a Deployment. */
function podTemplate(spec: object): string {
  return JSON.stringify({ spec: { template: { spec } } })
}

/** How all Pods of web get into the zone of the first client. */
export const emptyZone = ({ service, near }: ZoneClients): string => {
  const nodeSelector = { [ZONE]: near.zone }
  return `kubectl patch deployment ${service.name} -p '${podTemplate({ nodeSelector })}'`
}

/** Without the field, each client is answered by every Pod. */
export const answersComeFromEverywhere = onceSeen('everywhere', async (context) => {
  const clients = spreadEverywhere(context)
  expectWebChains(context, clients)
  const { service, near } = clients
  await expectAnswersOf(context, clients, near, service.backends, WHY_EVERYWHERE)
  return {}
})

/** web without a preference, with Pods in both zones. */
export function spreadEverywhere(context: CheckContext): ZoneClients {
  const clients = zoneClients(context)
  expectDistribution(context, clients.service, [undefined])
  expectBothZones(context, clients)
  return clients
}

export function expectBothZones({ snapshot }: CheckContext, { service, near }: ZoneClients): void {
  const { own, others } = backendsByZone(snapshot, service, near)
  expectThat(own.length > 0 && others.length > 0, {
    inspect: LIST_PODS,
    expected: `ready Pods of ${service.name} in ${near.zone} and in another zone`,
    actual: `${own.length} in ${near.zone}, ${others.length} elsewhere`,
    next: `kubectl patch deployment ${service.name} -p '${SPREAD}'`,
  })
}

/** With PreferClose, each client is answered by the Pods of its own zone. */
export const answersComeFromZone = onceSeen('own-zone', async (context) => {
  const clients = spreadByZone(context)
  expectWebChains(context, clients)
  for (const place of [clients.near, clients.far]) {
    const { own } = backendsByZone(context.snapshot, clients.service, place)
    await expectAnswersOf(context, clients, place, own, WHY_ZONE)
  }
  return {}
})

/** web with a preference for the zone, and Pods in both. */
export function spreadByZone(context: CheckContext): ZoneClients {
  requireZones(context)
  const clients = zoneClients(context)
  expectDistribution(context, clients.service, SAME_ZONE)
  for (const place of [clients.near, clients.far]) {
    const { own } = backendsByZone(context.snapshot, clients.service, place)
    expectThat(own.length > 0, {
      inspect: LIST_PODS,
      expected: `a ready Pod of ${clients.service.name} in ${place.zone}`,
      actual: 'none',
    })
  }
  expectHints(context, clients.service, false)
  return clients
}

/** With PreferClose and no Pod in its zone, client-b is answered by all Pods. */
export const answersComeFromOtherZone = onceSeen('other-zone', async (context) => {
  const clients = spreadWithEmptyZone(context)
  expectWebChains(context, clients)
  const { service, far } = clients
  await expectAnswersOf(context, clients, far, service.backends, WHY_FALLBACK)
  return {}
})

/** web with a preference for the zone, and no Pod in that of client-b. */
export function spreadWithEmptyZone(context: CheckContext): ZoneClients {
  requireZones(context)
  const clients = zoneClients(context)
  expectDistribution(context, clients.service, SAME_ZONE)
  const { service, far } = clients
  const { own, others } = backendsByZone(context.snapshot, service, far)
  expectThat(own.length === 0 && others.length > 0, {
    inspect: LIST_PODS,
    expected: `ready Pods of ${service.name}, and none of them in ${far.zone}`,
    actual: own.map(({ pod, node }) => `${pod} on ${node}`).join(', ') || 'no ready Pod at all',
    next: emptyZone(clients),
  })
  expectHints(context, clients.service, false)
  return clients
}

/** With PreferSameNode, each client is answered by the Pods of its own node. */
export const answersComeFromNode = onceSeen('own-node', async (context) => {
  const clients = spreadByNode(context)
  expectWebChains(context, clients)
  const { service } = clients
  for (const place of [clients.near, clients.far]) {
    const own = service.backends.filter(({ node }) => node === place.node.name)
    await expectAnswersOf(context, clients, place, own, WHY_NODE)
  }
  return {}
})

/** web with a preference for the node, and Pods on those of both clients. */
export function spreadByNode(context: CheckContext): ZoneClients {
  requireNodes(context)
  const clients = zoneClients(context)
  expectDistribution(context, clients.service, [SAME_NODE])
  for (const { node, client } of [clients.near, clients.far])
    expectThat(
      clients.service.backends.some((backend) => backend.node === node.name),
      {
        inspect: LIST_PODS,
        expected: `a ready Pod of ${clients.service.name} on ${node.name}, the node of ${client.who}`,
        actual: 'none',
        next: `kubectl patch deployment ${clients.service.name} -p '${SPREAD}'`,
      },
    )
  expectHints(context, clients.service, true)
  return clients
}
