import type { CheckContext } from '../../grading/check-context.ts'
import { expectReadyPod, podsWithLabel } from '../../grading/expect-object.ts'
import { expectAnswered, expectListener } from '../../grading/expect-traffic.ts'
import { expectNone, expectThat } from '../../grading/failure.ts'
import { type HttpReply, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { type NodeView, nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import type { WebService } from '../../grading/web-service.ts'
import { CLIENT, clientPod, newToken, separateRequests } from '../02-ipvs/web-requests.ts'
import { DROPPED_SECONDS } from '../03-from-outside/outside-requests.ts'

export const AGENT_PORT = 9100
const MANIFEST = 'labs/05-exposure/manifests/node-agent.yaml'
const ANY_ADDRESS = new Set(['0.0.0.0', '*', '[::]'])

/** The client Pod, and the agent on the same node. */
interface AgentScene {
  client: string
  node: string
  /** The node's own address. */
  nodeAddress: string
}

/** The client and the agent on its node. Fails when one of them is not ready. */
export function agentScene(context: CheckContext): AgentScene {
  const { address: client, node } = clientPod(context)
  const { snapshot } = context
  const agent = podsWithLabel(snapshot, 'node-agent').find(({ spec }) => spec?.nodeName === node)
  expectReadyPod(agent, 'node-agent', {
    node,
    inspect: 'kubectl get pods -l app=node-agent -o wide',
    expected: `a node agent that is ready on ${node}, beside the Pod client`,
    hint: `kubectl apply -f ${MANIFEST}`,
  })
  return {
    client,
    node,
    nodeAddress: nodeAddressOf(snapshot, node),
  }
}

/** The agent's port on an address. */
export const agentAt = (address: string) => ({ address, port: AGENT_PORT })

/** IPv4 ClusterIPs of all Services. */
export const clusterIPs = (snapshot: Snapshot): string[] =>
  objectsOf(snapshot).services.flatMap((service) => service.clusterIPs.filter((ip) => /^\d/.test(ip)))

/** The agent on the client's node listens on all addresses. A capture does not record listeners. */
export async function mustListenEverywhere({ live }: CheckContext, { node }: AgentScene): Promise<void> {
  const isAny = (addresses: readonly string[]) => addresses.some((address) => ANY_ADDRESS.has(address))
  if (live)
    await expectListener(live, { node, port: AGENT_PORT }, isAny, {
      expected: `an agent that listens on 0.0.0.0:${AGENT_PORT}`,
      hint: 'kubectl set env daemonset/node-agent BIND=0.0.0.0',
    })
}

/** The agent on the client's node listens only on the node's own address. */
export async function mustListenOnNodeAddress(
  { live }: CheckContext,
  { node, nodeAddress }: AgentScene,
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

/** Sends a request from the client Pod to the agent's port on each of these addresses. */
export async function askAgents(live: LiveCluster, addresses: readonly string[]): Promise<AgentReply[]> {
  const { stdout } = await live.inPod(CLIENT, httpRequests(addresses.map(agentRequest)))
  return agentReplies(addresses, readReplies(stdout))
}

const agentRequest = (address: string) => ({ address, port: AGENT_PORT, seconds: 2 })
const closedRequest = (address: string) => ({ ...agentRequest(address), seconds: DROPPED_SECONDS })

function agentReplies(addresses: readonly string[], replies: readonly HttpReply[]): AgentReply[] {
  return addresses.map((address, index) => {
    const { line = '', error = '', port = 0, status = 0 } = replies.find((reply) => reply.index === index) ?? {}
    const node = /^agent of (\S+)$/.exec(line)?.[1]
    return { address, silent: port > 0 && status === 0, error, ...(node === undefined ? {} : { node }) }
  })
}

/** The learner's command for a request to the agent at an address. */
const askCommand = (address: string) =>
  `kubectl exec client -- curl -sS --connect-timeout 2 http://${address}:${AGENT_PORT}`

/** The addresses that must still answer. */
interface StillOpen {
  scene: AgentScene
  hint: string
  /** A Service that must still answer, and the client's node. */
  service?: WebService
  view?: NodeView
}

/**
 * The client reaches no agent through these addresses (in some networks another machine answers on any address, which is
 * ignored). The agent still answers on the node's own address, and so does the Service.
 */
export async function mustBeClosed(live: LiveCluster, addresses: readonly string[], open: StillOpen): Promise<void> {
  const { scene, hint, service, view } = open
  const { node, nodeAddress } = scene
  const asked = [...addresses, nodeAddress]
  const usual = service ? [{ address: service.address, port: service.port }] : []
  const { stdout } = await live.inPod(
    CLIENT,
    httpRequests([...addresses.map(closedRequest), agentRequest(nodeAddress), ...usual]),
  )
  const all = readReplies(stdout)
  const replies = agentReplies(asked, all)
  const wrong = replies.find(({ address, node: by, silent }) => address !== nodeAddress && (by !== undefined || silent))
  expectNone(wrong, ({ address, node: by }) => ({
    node,
    inspect: askCommand(address),
    expected: `no answer of an agent on port ${AGENT_PORT} of ${address}`,
    actual:
      by === undefined ? 'a connection was accepted there, without an answer in time' : `the agent of ${by} answers`,
    hint,
  }))
  mustHaveAnswered(replies, scene)
  if (!service || !view) return
  const { address, port, name } = service
  const ofService = all.filter(({ index }) => index === asked.length)
  expectAnswered(
    ofService,
    1,
    { snapshot: view.snapshot, node: view.name, sender: { pod: scene.client }, target: service },
    {
      inspect: `kubectl exec client -- curl -sS --max-time 3 http://${address}:${port}`,
      expected: `an answer of the Service ${name}, which must stay open`,
    },
  )
}

/** On the node's own address the agent answers the client. */
export async function mustAnswerOnNode(live: LiveCluster, scene: AgentScene): Promise<void> {
  mustHaveAnswered(await askAgents(live, [scene.nodeAddress]), scene)
}

/** Expects an answer of that node's agent on that address. */
export function expectAgent(
  replies: readonly AgentReply[],
  { address, node, expected }: { address: string; node: string; expected: string },
): void {
  const reply = replies.find((one) => one.address === address)
  const actual = reply?.node ? `the agent of ${reply.node} answers` : reply?.error || 'no answer of the agent'
  expectThat(reply?.node === node, { node, inspect: askCommand(address), expected, actual })
}

function mustHaveAnswered(replies: readonly AgentReply[], { node, nodeAddress: address }: AgentScene): void {
  expectAgent(replies, { address, node, expected: `the agent's answer on ${address}, the node's own address` })
}

/** The number of the client's requests to a Service, or to one Pod, that were answered. */
export async function answered(
  live: LiveCluster,
  target: { address: string; port: number },
  times = 1,
): Promise<number> {
  const { stdout } = await live.inPod(
    CLIENT,
    separateRequests({ name: '', backends: [], ...target }, newToken(), times),
  )
  return readReplies(stdout).filter(({ status }) => status === 200).length
}
