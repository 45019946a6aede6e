import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectReadyPod, podsWithLabel, type WebService, webService } from '../../grading/expect-object.ts'
import { expectThat, fail } from '../../grading/failure.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { type NodeView, nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { expectListener } from '../../grading/traffic.ts'
import { DROPPED_SECONDS } from '../03-from-outside/outside-requests.ts'
import { backendsOnTwoNodes, CLIENT, clientPod, expectAnswers, requestsTo } from '../web-client.ts'
import { expectPredictedIpvs } from './packet-path.ts'

export const AGENT_PORT = 9100
const MANIFEST = 'labs/05-exposure/manifests/node-agent.yaml'
const ANY_ADDRESS = new Set(['0.0.0.0', '*', '[::]'])

/** The client Pod, the agent on the same node, and the addresses through which one may reach the other. */
export interface ClientAndAgent {
  client: string
  node: string
  view: NodeView
  /** The node's own address. */
  nodeAddress: string
  /** The Service web. */
  service: WebService
  /** IPv4 ClusterIPs of all Services. */
  addresses: string[]
}

/** The client and the agent on its node. Fails when one of them is not ready. */
export function clientAndAgent(context: CheckContext): ClientAndAgent {
  const { address: client, node } = clientPod(context, '05-exposure')
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

/** The result of one request to the agent's port. */
interface AgentReply {
  address: string
  /** The node whose agent answered; absent when none did. */
  node: string | undefined
  /**
   * A connection was established without an answer in time, for example by a busy agent: it is unknown which process accepted
   * it.
   */
  silent: boolean
  /** The error if there was no answer. */
  error: string
}

/** Sends a request from the client Pod to the agent's port on each of these addresses. */
async function requestAgents(live: LiveCluster, addresses: readonly string[], seconds = 2): Promise<AgentReply[]> {
  const requests = addresses.map((address) => ({ ...agentAt(address), seconds }))
  const replies = readReplies((await live.inPod(CLIENT, httpRequests(requests))).stdout)
  return addresses.map((address, index) => {
    const { line = '', error = '', port = 0, status = 0 } = replies.find((reply) => reply.index === index) ?? {}
    return { address, node: /^agent of (\S+)$/.exec(line)?.[1], silent: port > 0 && status === 0, error }
  })
}

/** The learner's command for a request to the agent at an address. */
const typedCommand = (address: string) =>
  `kubectl exec client -- curl -sS --connect-timeout 2 http://${address}:${AGENT_PORT}`

/** The client reaches the agent of its own node through all these addresses. */
export async function expectOpen(live: LiveCluster, addresses: readonly string[], node: string): Promise<void> {
  for (const { address, node: by, error } of await requestAgents(live, addresses))
    expectThat(by === node, {
      node,
      inspect: typedCommand(address),
      expected: `an answer of the agent of ${node} on ${address}:${AGENT_PORT}`,
      actual: by ? `the agent of ${by} answers` : error || 'no answer of the agent',
    })
}

/** web has its Pods, the client is ready, and the agent beside it answers on the node's own address. */
export async function agentAnswers(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const { node, nodeAddress } = clientAndAgent(context)
  if (context.live) await expectOpen(context.live, [nodeAddress], node)
}

/**
 * The client reaches no agent through these addresses (in some networks another machine answers on any address, which is
 * ignored). The agent still answers on the node's own address, and so does the Service if one is given.
 */
export async function expectClosed(
  live: LiveCluster,
  addresses: readonly string[],
  { client, node, nodeAddress, view }: ClientAndAgent,
  { hint, service }: { hint: string; service?: WebService },
): Promise<void> {
  const replies = await requestAgents(live, addresses, DROPPED_SECONDS)
  const wrong = replies.find((reply) => reply.node !== undefined || reply.silent)
  if (wrong)
    fail({
      node,
      inspect: typedCommand(wrong.address),
      expected: `no answer of an agent on port ${AGENT_PORT} of ${wrong.address}`,
      actual: wrong.node
        ? `the agent of ${wrong.node} answers`
        : 'a connection was accepted there, without an answer in time',
      hint,
    })
  await expectOpen(live, [nodeAddress], node)
  if (service)
    await expectAnswers(view, live, { ...CLIENT, address: client, node }, service, 1, {
      expected: `an answer of the Service ${service.name}, which must stay open`,
    })
}

/** The number of the client's requests to a Service, or to one Pod, that were answered. */
export async function answered(
  live: LiveCluster,
  target: { address: string; port: number },
  times = 1,
): Promise<number> {
  const { stdout } = await live.inPod(CLIENT, requestsTo(target, times))
  return readReplies(stdout).filter(({ status }) => status === 200).length
}
