import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectReadyPod, podsWithLabel, type WebService, webService } from '../../grading/expect-object.ts'
import { expectThat, fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import {
  answersIn,
  DROPPED_SECONDS,
  expectAnswers,
  type PodRequester,
  send,
  typedRequest,
} from '../../grading/requests.ts'
import { type NodeView, nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { expectListener } from '../../grading/traffic.ts'
import { backendsOnTwoNodes, clientPod } from '../web-client.ts'
import { expectPredictedIpvs } from './packet-path.ts'

export const AGENT_PORT = 9100
const MANIFEST = 'labs/05-exposure/manifests/node-agent.yaml'
const ANY_ADDRESS = new Set(['0.0.0.0', '*', '[::]'])

/** The client Pod, the agent on the same node, and the addresses through which one may reach the other. */
export interface ClientAndAgent {
  client: PodRequester
  node: string
  view: NodeView
  /** The node's own address. */
  nodeAddress: string
  service: WebService
  /** IPv4 ClusterIPs of all Services. */
  addresses: string[]
}

/** The client and the agent on its node. Fails when one of them is not ready. */
export function clientAndAgent(context: CheckContext): ClientAndAgent {
  const client = clientPod(context, '05-exposure')
  const { node } = client
  const { snapshot } = context
  const agent = podsWithLabel(snapshot, 'node-agent').find(({ spec }) => spec?.nodeName === node)
  expectReadyPod(agent, 'node-agent', {
    node,
    inspect: 'kubectl get pods -l app=node-agent -o wide',
    expected: `a node agent that is ready on ${node}, beside the Pod client`,
    hint: `kubectl apply -f ${MANIFEST}`,
  })
  const nodeAddress = nodeAddressOf(snapshot, node)
  return {
    ...{ client, node, view: snapshot.node(node), nodeAddress },
    ...{ service: webService(snapshot), addresses: clusterIPs(snapshot) },
  }
}

/** The same in IPVS mode, if its node equals the prediction. */
export function agentInIpvsMode(context: CheckContext, hint: string): ClientAndAgent {
  expectMode(context, 'ipvs', { hint })
  const place = clientAndAgent(context)
  expectPredictedIpvs(context, place.node)
  return place
}

/** The agent's port on an address. */
export const agentAt = (address: string) => ({ address, port: AGENT_PORT })

/** IPv4 ClusterIPs of all Services. */
export const clusterIPs = (snapshot: Snapshot): string[] =>
  objectsOf(snapshot).services.flatMap((service) => service.clusterIPs.filter((ip) => /^\d/.test(ip)))

/** The agent on the client's node listens on all addresses. A capture does not record listeners. */
export async function expectListenerEverywhere({ live }: CheckContext, { node }: ClientAndAgent): Promise<void> {
  const isAny = (addresses: readonly string[]) => addresses.some((address) => ANY_ADDRESS.has(address))
  if (live)
    await expectListener(live, { node, port: AGENT_PORT }, isAny, {
      expected: `an agent that listens on 0.0.0.0:${AGENT_PORT}`,
      hint: 'kubectl set env daemonset/node-agent BIND=0.0.0.0',
    })
}

/**
 * Requests to the agent's port on each address: the node that answered, the error, and whether a connection was accepted without an
 * answer in time, for example by a busy agent: it is unknown which process accepted it.
 */
async function requestAgents(live: LiveCluster, client: PodRequester, addresses: readonly string[], seconds = 2) {
  const sent = await send(
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
export async function expectOpen(live: LiveCluster, client: PodRequester, addresses: readonly string[]): Promise<void> {
  const { node } = client
  for (const { address, inspect, node: by, error } of await requestAgents(live, client, addresses))
    expectThat(by === node, {
      node,
      inspect,
      expected: `an answer of the agent of ${node} on ${address}:${AGENT_PORT}`,
      actual: by ? `the agent of ${by} answers` : error || 'no answer of the agent',
    })
}

/** web has its Pods, the client is ready, and the agent beside it answers on the node's own address. */
export async function agentAnswers(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const { client, nodeAddress } = clientAndAgent(context)
  if (context.live) await expectOpen(context.live, client, [nodeAddress])
}

/**
 * The client reaches no agent through these addresses; in some networks another machine answers on any address, which is ignored.
 * It still reaches the agent on the node's own address, and the Service if one is given.
 */
export async function expectClosed(
  live: LiveCluster,
  addresses: readonly string[],
  { client, node, nodeAddress, view }: ClientAndAgent,
  { hint, service }: { hint: string; service?: WebService },
): Promise<void> {
  const replies = await requestAgents(live, client, addresses, DROPPED_SECONDS)
  const wrong = replies.find((reply) => reply.node !== undefined || reply.silent)
  if (wrong)
    fail({
      node,
      inspect: wrong.inspect,
      expected: `no answer of an agent on port ${AGENT_PORT} of ${wrong.address}`,
      actual: wrong.node
        ? `the agent of ${wrong.node} answers`
        : 'a connection was accepted there, without an answer in time',
      hint,
    })
  await expectOpen(live, client, [nodeAddress])
  if (service)
    await expectAnswers(view, live, client, service, 1, {
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
  return (await send(live, client, [{ ...target, times }])).flatMap(answersIn).length
}
