import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectReadyPod, podsWithLabel, type WebService, webService } from '../../grading/expect-object.ts'
import { expectNone, expectThat } from '../../grading/failure.ts'
import { type HttpReply, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { type NodeView, nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { expectAnswered, expectListener } from '../../grading/traffic.ts'
import { DROPPED_SECONDS } from '../03-from-outside/outside-requests.ts'
import { backendsOnTwoNodes, CLIENT, clientPod, requestsTo } from '../web-client.ts'
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
  const { address: client, node } = clientPod(context)
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

/** The agent on the client's node listens only on the node's own address. */
export async function expectListenerOnNodeAddress(
  { live }: CheckContext,
  { node, nodeAddress }: ClientAndAgent,
): Promise<void> {
  if (live)
    await expectListener(live, { node, port: AGENT_PORT }, (addresses) => addresses.join() === nodeAddress, {
      expected: `an agent that listens on ${nodeAddress}:${AGENT_PORT} and nowhere else`,
      hint: "kubectl set env daemonset/node-agent 'BIND=$(HOST_IP)'",
    })
}

/** The result of one request to the agent's port. */
interface AgentReply {
  address: string
  /** The node whose agent answered; absent when none did. */
  node?: string
  /**
   * A connection was established without an answer in time, for example by a busy agent: it is unknown which process accepted
   * it.
   */
  silent: boolean
  /** The error if there was no answer. */
  error: string
}

const agentRequest = (address: string) => ({ ...agentAt(address), seconds: 2 })

/** Sends a request from the client Pod to the agent's port on each of these addresses. */
async function requestAgents(live: LiveCluster, addresses: readonly string[]): Promise<AgentReply[]> {
  const { stdout } = await live.inPod(CLIENT, httpRequests(addresses.map(agentRequest)))
  return agentReplies(addresses, readReplies(stdout))
}

function agentReplies(addresses: readonly string[], replies: readonly HttpReply[]): AgentReply[] {
  return addresses.map((address, index) => {
    const { line = '', error = '', port = 0, status = 0 } = replies.find((reply) => reply.index === index) ?? {}
    const node = /^agent of (\S+)$/.exec(line)?.[1]
    return { address, silent: port > 0 && status === 0, error, ...(node !== undefined && { node }) }
  })
}

/** The learner's command for a request to the agent at an address. */
const typedCommand = (address: string) =>
  `kubectl exec client -- curl -sS --connect-timeout 2 http://${address}:${AGENT_PORT}`

/** On that address the agent of that node answers. */
function expectAgent(replies: readonly AgentReply[], address: string, node: string, expected: string): void {
  const reply = replies.find((one) => one.address === address)
  const actual = reply?.node ? `the agent of ${reply.node} answers` : reply?.error || 'no answer of the agent'
  expectThat(reply?.node === node, { node, inspect: typedCommand(address), expected, actual })
}

function expectAgentOnNode(replies: readonly AgentReply[], { node, nodeAddress }: ClientAndAgent): void {
  expectAgent(replies, nodeAddress, node, `the agent's answer on ${nodeAddress}, the node's own address`)
}

/** web has its Pods, the client is ready, and the agent beside it answers on the node's own address. */
export async function agentAnswers(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const place = clientAndAgent(context)
  if (context.live) expectAgentOnNode(await requestAgents(context.live, [place.nodeAddress]), place)
}

/** The client reaches the agent of its own node through all these addresses. */
export async function expectOpen(live: LiveCluster, addresses: readonly string[], node: string): Promise<void> {
  const replies = await requestAgents(live, addresses)
  for (const address of addresses)
    expectAgent(replies, address, node, `an answer of the agent of ${node} on ${address}:${AGENT_PORT}`)
}

/**
 * The client reaches no agent through these addresses (in some networks another machine answers on any address, which is
 * ignored). The agent still answers on the node's own address, and so does the Service if one is given.
 */
export async function expectClosed(
  live: LiveCluster,
  addresses: readonly string[],
  place: ClientAndAgent,
  { hint, service }: { hint: string; service?: WebService },
): Promise<void> {
  const { client, node, nodeAddress, view } = place
  const closed = addresses.map((address) => ({ ...agentAt(address), seconds: DROPPED_SECONDS }))
  const usual = service ? [{ address: service.address, port: service.port }] : []
  const { stdout } = await live.inPod(CLIENT, httpRequests([...closed, agentRequest(nodeAddress), ...usual]))
  const all = readReplies(stdout)
  const replies = agentReplies([...addresses, nodeAddress], all)
  const wrong = replies.find(({ address, node: by, silent }) => address !== nodeAddress && (by !== undefined || silent))
  expectNone(wrong, ({ address, node: by }) => ({
    node,
    inspect: typedCommand(address),
    expected: `no answer of an agent on port ${AGENT_PORT} of ${address}`,
    actual:
      by === undefined ? 'a connection was accepted there, without an answer in time' : `the agent of ${by} answers`,
    hint,
  }))
  expectAgentOnNode(replies, place)
  if (!service) return
  const ofService = all.filter(({ index }) => index === replies.length)
  const route = { snapshot: view.snapshot, node: view.name, sender: { pod: client }, target: service }
  expectAnswered(ofService, 1, route, {
    inspect: `kubectl exec client -- curl -sS --max-time 3 http://${service.address}:${service.port}`,
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
