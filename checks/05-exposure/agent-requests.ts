import { CLIENT, newToken, parseRequests, separateRequests } from '../02-ipvs/web-requests.ts'
import { fail } from '../failure.ts'
import type { LiveCluster } from '../live-cluster.ts'
import { traceLine } from '../packet-trace.ts'
import type { NodeView } from '../snapshot.ts'
import type { WebService } from '../web-service.ts'
import { AGENT_PORT, type AgentScene } from './node-agent.ts'

/** What came of one request to the agent's port. */
export interface AgentReply {
  address: string
  /** The node whose agent answered; absent when none did. */
  node?: string
  /** curl's words when there was no answer. */
  error: string
}

const REPLY = /([\s\S]*?)\n#asked http:\/\/([\d.]+):\d+\/ (.*)\n/g

/** Asks the client Pod to request the agent's port on each of these addresses, one after the other. */
export async function askAgents(live: LiveCluster, addresses: readonly string[]): Promise<AgentReply[]> {
  return parseReplies((await live.inPod(CLIENT, agentScript(addresses))).stdout)
}

function agentScript(addresses: readonly string[]): string {
  const urls = addresses.map((address) => `http://${address}:${AGENT_PORT}/`).join(' ')
  const print = "-w '\\n#asked %{url_effective} %{errormsg}\\n'"
  return `curl -s --connect-timeout 1 --max-time 2 ${print} ${urls}`
}

function parseReplies(stdout: string): AgentReply[] {
  return [...stdout.matchAll(REPLY)].map(([, body = '', address = '', error = '']) => {
    const node = /^agent of (\S+)$/m.exec(body)?.[1]
    return { address, error, ...(node === undefined ? {} : { node }) }
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
 * None of these addresses leads the client to an agent, while the agent answers on the node's own address, and the Service as
 * before: what was closed is nothing else.
 */
export async function mustBeClosed(live: LiveCluster, addresses: readonly string[], open: StillOpen): Promise<void> {
  const { scene, hint, service, view } = open
  const { node, nodeAddress } = scene
  const request = service ? separateRequests(service, newToken(), 1) : ''
  const { stdout } = await live.inPod(CLIENT, `${agentScript([...addresses, nodeAddress])}; ${request}`)
  const replies = parseReplies(stdout)
  const wrong = replies.find((reply) => reply.node !== undefined && reply.address !== nodeAddress)
  if (wrong)
    fail({
      node,
      look: askCommand(wrong.address),
      expected: `no answer on port ${AGENT_PORT} of ${wrong.address}`,
      actual: `the agent of ${wrong.node} answers`,
      hint,
    })
  mustHaveAnswered(replies, scene)
  if (!service || !view || parseRequests(stdout)[0]?.status === 200) return
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
  return parseRequests(stdout).filter(({ status }) => status === 200).length
}
