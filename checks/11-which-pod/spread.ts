// Which Pods of web answer a client: by the rules of its node, and by real requests, whose shares
// are drawn.

import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode, expectNode } from '../../grading/expect-node.ts'
import type { WebBackend } from '../../grading/expect-object.ts'
import { expectThat } from '../../grading/failure.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { answersIn, sendMarked, typedRequest } from '../../grading/requests.ts'
import { countByPod, isLikelyShare, shareBars } from '../../grading/shares.ts'
import { expectServiceChains } from '../01-iptables/service-chains.ts'
import { type ZoneClient, type ZoneClients, zoneOfNode } from './zone-clients.ts'

const REQUESTS = 40

/** The chains of web equal the prediction on every node. */
export function expectWebChains(context: CheckContext, { service }: ZoneClients): void {
  expectMode(context, 'iptables', {
    hint: 'This lab works in iptables mode:',
    next: 'make iptables && make flush-nat',
  })
  expectServiceChains(context.nodes, service.service, {
    chains: ['nat KUBE-SERVICES', 'filter KUBE-SERVICES'],
    inspect: 'iptables -t nat -S | grep -E "KUBE-SV[CL]"; iptables -S KUBE-SERVICES',
    expected: `the chains of ${service.name} as they follow from its fields and its EndpointSlice`,
  })
}

/**
 * The probability with which the rules of the client's node lead its request to each Pod of web, by
 * address.
 */
export function chancesOf({ service }: ZoneClients, { client, node }: ZoneClient) {
  const { outcomes } = traceOf(node, client.sender, service)
  const chances = new Map<string, number>()
  for (const { to, probability } of outcomes) {
    const address = to.replace(/:\d+$/, '')
    chances.set(address, (chances.get(address) ?? 0) + probability)
  }
  return chances
}

/**
 * By the rules of the client's node, exactly these Pods answer it; with real requests, each of them
 * about equally often.
 */
export async function expectAnswersOf(
  { snapshot, live, show }: CheckContext,
  { service }: ZoneClients,
  { client, node, zone }: ZoneClient,
  wanted: readonly WebBackend[],
  why: string,
): Promise<string[]> {
  const { address, port, name } = service
  expectNode(node).packetReaches(
    client.sender,
    service,
    { backends: wanted.map((backend) => backend.address), masqueraded: false },
    { why },
  )
  if (!live) return []
  const request = { address, port, times: REQUESTS }
  const { answered, logged } = await sendMarked(live, client, service, [request])
  const shares = countByPod(service.backends, await logged())
  const total = answered.flatMap(answersIn).length
  const bars = shares.map(({ pod, node: at, requests }) => ({
    labels: [pod, at, zoneOfNode(snapshot, at)],
    count: requests,
  }))
  const lines = [`${total} requests of ${client.who} in ${zone}, by Pod:`, ...shareBars(bars)]
  show(lines)
  const part = (pod: string) => (wanted.some((one) => one.pod === pod) ? 1 / wanted.length : 0)
  const odd = shares.find(({ pod, requests }) => !isLikelyShare(requests, total, part(pod)))
  expectThat(total === REQUESTS && !odd, {
    node: node.name,
    inspect: typedRequest(client, { address, port }),
    expected: `${REQUESTS} answers to ${client.who} from ${wanted.map(({ pod }) => pod).join(' and ')}, each about as often`,
    actual: odd
      ? `${odd.pod} answered ${odd.requests} of ${total}`
      : `${total} of ${REQUESTS} requests to ${name} were answered`,
    why,
  })
  return lines
}
