// Lab 11: rules of the learner before and after DNAT, as a network policy would have to choose.

import type { Rule } from '../../dataplane/iptables-save.ts'
import { commentOf, targetOf } from '../../dataplane/rule.ts'
import { type CheckContext, type EvidenceCheck, onceSeen } from '../../grading/check-context.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import { packetsOn } from '../../grading/packet-counters.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import type { Truth } from '../../grading/question.ts'
import { stateOf } from '../../grading/snapshot.ts'
import { expectPacket } from '../05-exposure/packet-path.ts'
import { type ZoneClients, zoneClients } from './zone-clients.ts'

const COUNT = 'lab-11-count'
const LIST = 'iptables -t mangle -nvL PREROUTING; iptables -nvL FORWARD'

/** A counting rule: where it is, and how it is recognised. */
interface CountingPlace {
  name: string
  table: 'mangle' | 'filter'
  chain: 'PREROUTING' | 'FORWARD'
  matches(spec: string, address: string): boolean
  match: string
}

const toService = (spec: string, address: string) => spec.includes(`-d ${address}/32 `)
const PLACES: readonly CountingPlace[] = [
  {
    name: 'prerouting-service',
    table: 'mangle',
    chain: 'PREROUTING',
    matches: toService,
    match: '-d $WEB',
  },
  {
    name: 'forward-service',
    table: 'filter',
    chain: 'FORWARD',
    matches: toService,
    match: '-d $WEB',
  },
  {
    name: 'forward-pods',
    table: 'filter',
    chain: 'FORWARD',
    matches: (spec, address) => / -d \S+\/\d+ /.test(` ${spec} `) && !toService(spec, address),
    match: '-d 10.244.0.0/16',
  },
  {
    name: 'forward-original',
    table: 'filter',
    chain: 'FORWARD',
    matches: (spec, address) => spec.includes(`--ctorigdst ${address} `),
    match: '-m conntrack --ctorigdst $WEB',
  },
]

/**
 * The learner's four counting rules on the client's node, by name. Fails for one that is missing.
 */
function countingRules({
  service,
  near,
}: ZoneClients): Map<string, { place: CountingPlace; rule: Rule }> {
  const { node, client } = near
  const found = PLACES.map((place) => {
    const { name, table, chain, matches, match } = place
    const rules = stateOf(node).iptables.get(table)?.get(chain)?.rules ?? []
    const rule = rules.find(
      ({ spec }) =>
        commentOf(spec) === COUNT &&
        targetOf(spec) === undefined &&
        spec.includes(`-s ${client.address}/32 `) &&
        matches(spec, service.address),
    )
    const counter = expectFound(rule, {
      node: node.name,
      inspect: onNode(node.name, LIST),
      expected: `a rule in ${table} ${chain} without a target that counts packets of ${client.address} by ${match}, with the comment ${COUNT}`,
      next: onNode(
        node.name,
        `iptables -t ${table} -I ${chain} -s ${client.address} -m comment --comment ${COUNT} ${match.replace('$WEB', service.address)}`,
      ),
    })
    return [name, { place, rule: counter }] as const
  })
  return new Map(found)
}

/** The four rules are there, and a packet of the client to web would still reach a Pod. */
export const placesAreCounted = onceSeen('places', async (context: CheckContext) => {
  const clients = zoneClients(context)
  countingRules(clients)
  const { service, near } = clients
  expectPacket(near.node, near.client, service, {
    inspect: LIST,
    expected: `a packet of ${near.client.address} to ${service.name} that reaches a Pod`,
    hint: 'A rule that only counts has no target: leave out -j.',
  }).isSentOn()
  return {}
})

/** A request of the learner's own has been counted before its translation. */
export const ownCountedRequest: EvidenceCheck = async (context) => {
  const clients = zoneClients(context)
  const { node } = clients.near
  const first = countingRules(clients).get('prerouting-service')
  const { spec } = expectFound(first?.rule, {
    inspect: onNode(node.name, LIST),
    expected: 'the counting rule in mangle PREROUTING',
  })
  const packets = await packetsOn(
    context.live,
    node.name,
    ['mangle', 'PREROUTING'],
    (one) => one === spec,
  )
  expectThat((packets ?? 0) > 0, {
    node: node.name,
    inspect: onNode(node.name, LIST),
    expected: 'a request of your own on the counter in PREROUTING',
    actual: 'no packet',
    next: `kubectl exec client -- curl -s -o /dev/null http://${clients.service.address}:${clients.service.port}`,
  })
  return { packets }
}

/** Predict: the counting rules that match the client's request to web, by the rules of its node. */
export function placesThatCount(context: CheckContext): Truth {
  const clients = zoneClients(context)
  const { service, near } = clients
  const { hops } = traceOf(near.node, near.client.sender, service)
  const counts = [...countingRules(clients)].flatMap(([name, { place, rule }]) =>
    hops.some(
      (hop) =>
        hop.table === place.table &&
        hop.chain === place.chain &&
        hop.rule === `-A ${place.chain} ${rule.spec}`,
    )
      ? [name]
      : [],
  )
  return {
    accepts: [counts.join(', ')],
    inspect: onNode(near.node.name, LIST),
    wrong: [
      {
        when: (answer) => answer.includes('forward-service'),
        because:
          'In FORWARD the destination is a Pod already: kube-proxy has translated it in nat PREROUTING. A policy that names a ClusterIP there never matches.',
      },
      {
        when: (answer) => !answer.includes('prerouting-service'),
        because:
          'mangle PREROUTING comes before nat PREROUTING, so the packet still has the ClusterIP there.',
      },
      {
        when: (answer) => !answer.includes('forward-original'),
        because:
          'The entry of conntrack keeps the original destination for the whole connection, and a rule can ask for it.',
      },
      {
        when: (answer) => !answer.includes('forward-pods'),
        because: 'After the translation the packet is one for a Pod, and FORWARD sees it as such.',
      },
    ],
    because:
      'Before the translation the packet has the ClusterIP, afterwards the address of a Pod; conntrack remembers the first.',
  }
}
