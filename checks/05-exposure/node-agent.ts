import type { Advice } from '../../grading/advice.ts'
import type { ApiObject } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectReadyPod, podsWithLabel, type WebService } from '../../grading/expect-object.ts'
import { expectThat, fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import {
  answersIn,
  DROPPED_SECONDS,
  expectAnswers,
  type PodRequester,
  sendRequests,
  typedRequest,
} from '../../grading/requests.ts'
import { nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { expectListener } from '../../grading/traffic.ts'
import { backendsOnTwoNodes } from '../web-client.ts'
import { type ClientNode, clientNode, expectPredictedIpvs } from './client-node.ts'

export const AGENT_PORT = 9100
const MANIFEST = 'labs/05-exposure/manifests/node-agent.yaml'
const ANY_ADDRESS = new Set(['0.0.0.0', '*', '[::]'])

/** The client's node, if its agent is ready. */
export function clientAndAgent(context: CheckContext): ClientNode {
  const place = clientNode(context)
  const { name } = place.node
  const agent = podsWithLabel(context.snapshot, 'node-agent').find(
    ({ spec }) => spec?.nodeName === name,
  )
  expectAgent(agent, name, `a node agent that is ready on ${name}, beside the Pod client`)
  return place
}

function expectAgent(agent: ApiObject | undefined, node: string, expected: string): void {
  const inspect = 'kubectl get pods -l app=node-agent -o wide'
  expectReadyPod(agent, 'node-agent', {
    node,
    inspect,
    expected,
    next: `kubectl apply -f ${MANIFEST}`,
  })
}

/** The same in IPVS mode, if its node equals the prediction. */
export function agentInIpvsMode(context: CheckContext, advice: Partial<Advice>): ClientNode {
  expectMode(context, 'ipvs', advice)
  const place = clientAndAgent(context)
  expectPredictedIpvs(context, place.node)
  return place
}

/** The address of the node itself, which is no ClusterIP. */
export const ownAddress = ({ node }: Pick<ClientNode, 'node'>): string =>
  nodeAddressOf(node.snapshot, node.name)

/** The agent's port on an address. */
export const agentAt = (address: string) => ({ address, port: AGENT_PORT })

/** IPv4 ClusterIPs of all Services. */
export const clusterIPs = (snapshot: Snapshot): string[] =>
  objectsOf(snapshot).services.flatMap((service) =>
    service.clusterIPs.filter((ip) => /^\d/.test(ip)),
  )

/** The agent on the client's node listens on all addresses. A capture does not record listeners. */
export async function expectListenerEverywhere(
  { live }: CheckContext,
  { client }: ClientNode,
): Promise<void> {
  const isAny = (addresses: readonly string[]) =>
    addresses.some((address) => ANY_ADDRESS.has(address))
  if (live)
    await expectListener(live, { node: client.node, port: AGENT_PORT }, isAny, {
      expected: `an agent that listens on 0.0.0.0:${AGENT_PORT}`,
      next: 'kubectl set env daemonset/node-agent BIND=0.0.0.0',
    })
}

/**
 * Requests to the agent's port on each address: the node that answered, the error, and whether a
 * connection was accepted without an answer in time, for example by a busy agent: it is unknown
 * which process accepted it.
 */
async function requestAgents(
  live: LiveCluster,
  client: PodRequester,
  addresses: readonly string[],
  seconds = 2,
) {
  const sent = await sendRequests(
    live,
    client,
    addresses.map((address) => ({ ...agentAt(address), seconds })),
  )
  return sent.map(({ request, replies }) => {
    const { line = '', error = '', port = 0, status = 0 } = replies[0] ?? {}
    const inspect = typedRequest(client, request, '--connect-timeout 2')
    return {
      address: request.address,
      inspect,
      node: /^agent of (\S+)$/.exec(line)?.[1],
      silent: port > 0 && status === 0,
      error,
    }
  })
}

/** The client reaches the agent of its own node through all these addresses. */
export async function expectOpen(
  live: LiveCluster,
  client: PodRequester,
  addresses: readonly string[],
): Promise<void> {
  const { node } = client
  for (const { address, inspect, node: by, error } of await requestAgents(live, client, addresses))
    expectThat(by === node, {
      node,
      inspect,
      expected: `an answer of the agent of ${node} on ${address}:${AGENT_PORT}`,
      actual: by ? `the agent of ${by} answers` : error || 'no answer of the agent',
    })
}

/**
 * web has its Pods, the client is ready, and the agent beside it answers on the node's own address.
 * The agents of other nodes are not asked for: no later step uses them, and their nodes may be
 * down.
 */
export async function agentAnswers(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const place = clientAndAgent(context)
  if (context.live) await expectOpen(context.live, place.client, [ownAddress(place)])
}

/**
 * The client reaches no agent through these addresses; in some networks another machine answers on
 * any address, which is ignored. It still reaches the agent on the node's own address, and the
 * Service if one is given.
 */
export async function expectClosed(
  live: LiveCluster,
  addresses: readonly string[],
  place: Pick<ClientNode, 'client' | 'node'>,
  { service, ...advice }: Partial<Advice> & { service?: WebService },
): Promise<void> {
  const { client, node } = place
  const replies = await requestAgents(live, client, addresses, DROPPED_SECONDS)
  const wrong = replies.find((reply) => reply.node !== undefined || reply.silent)
  if (wrong)
    fail({
      node: node.name,
      inspect: wrong.inspect,
      expected: `no answer of an agent on port ${AGENT_PORT} of ${wrong.address}`,
      actual: wrong.node
        ? `the agent of ${wrong.node} answers`
        : 'a connection was accepted there, without an answer in time',
      ...advice,
    })
  await expectOpen(live, client, [ownAddress(place)])
  if (service)
    await expectAnswers(node, live, client, service, 1, {
      expected: `an answer of the Service ${service.name}, which must stay open`,
    })
}

/** The number of the client's requests to a Service, or to one Pod, that were answered. */
export async function answered(
  live: LiveCluster,
  client: PodRequester,
  target: { address: string; port: number },
  times = 1,
): Promise<number> {
  return (await sendRequests(live, client, [{ ...target, times }])).flatMap(answersIn).length
}
