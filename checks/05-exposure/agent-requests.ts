import { fail } from '../../grading/failure.ts'
import { type HttpReply, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import type { WebService } from '../../grading/web-service.ts'
import { CLIENT, newToken, separateRequests } from '../02-ipvs/web-requests.ts'
import { DROPPED_SECONDS } from '../03-from-outside/outside-requests.ts'
import { AGENT_PORT, type AgentScene } from './node-agent.ts'

/** What came of one request to the agent's port. */
export interface AgentReply {
  address: string
  /** The node whose agent answered; absent when none did. */
  node?: string
  /** A connection was made and nothing was answered in time, which a busy agent may do: who accepted it is not known. */
  silent: boolean
  /** What was wrong when there was no answer. */
  error: string
}

/** Asks the client Pod to request the agent's port on each of these addresses. */
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

/** The command that asks the agent through an address, as the learner types it. */
export const askCommand = (address: string) =>
  `kubectl exec client -- curl -sS --connect-timeout 2 http://${address}:${AGENT_PORT}`

/** What is asked for besides addresses on which nobody may answer. */
interface StillOpen {
  scene: AgentScene
  hint: string
  /** A Service that must go on answering, and the client's node. */
  service?: WebService
  view?: NodeView
}

/**
 * None of these addresses leads the client to an agent, whatever else may answer for an address that no node has: some networks
 * answer for any. Meanthe agent answers on the node's own address, and the Service as before: nothing else was closed.
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
  if (wrong)
    fail({
      node,
      look: askCommand(wrong.address),
      expected: `no answer of an agent on port ${AGENT_PORT} of ${wrong.address}`,
      actual:
        wrong.node === undefined
          ? 'a connection was accepted there, and nothing answered in time'
          : `the agent of ${wrong.node} answers`,
      hint,
    })
  mustHaveAnswered(replies, scene)
  if (!service || !view || all.some(({ index, status }) => index === asked.length && status === 200)) return
  const { address, port, name } = service
  fail({
    node,
    look: `kubectl exec client -- curl -sS --max-time 3 http://${address}:${port}`,
    expected: `an answer of the Service ${name}, which nobody meant to close`,
    actual: 'no answer',
    differences: traceLine(view, { pod: scene.client }, { address, port }),
  })
}

/** On the node's own address the agent answers the client. */
export async function mustAnswerOnNode(live: LiveCluster, scene: AgentScene): Promise<void> {
  mustHaveAnswered(await askAgents(live, [scene.nodeAddress]), scene)
}

function mustHaveAnswered(replies: readonly AgentReply[], { node, nodeAddress }: AgentScene): void {
  const reply = replies.find(({ address }) => address === nodeAddress)
  if (reply?.node === node) return
  fail({
    node,
    look: askCommand(nodeAddress),
    expected: `the agent's answer on ${nodeAddress}, the node's own address`,
    actual: reply?.error || 'no answer of the agent',
  })
}

/** How many of the client's requests to a Service, or to one Pod, were answered. */
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
