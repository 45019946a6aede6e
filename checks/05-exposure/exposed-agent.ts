import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { holdsOnceSeen } from '../../grading/seen-moment.ts'
import { webService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { backendsOnTwoNodes } from '../02-ipvs/web-requests.ts'
import { ACCESS_FILTER, OLD_RULES } from './access-filter.ts'
import { askAgents, askCommand, mustAnswerOnNode, mustBeClosed } from './agent-requests.ts'
import { AGENT_PORT, agentScene, clusterIPs, mustListenEverywhere } from './node-agent.ts'
import { describePath, ipvsIsAsMade, packetPathOf } from './packet-path.ts'

const CLOSED = 'closed-in-iptables-mode'
const EXPOSED = 'exposed-in-ipvs-mode'

/** iptables mode: the agent listens on all addresses of its node, but no ClusterIP is one of them. */
export async function clusterIPsLeadNowhere(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, CLOSED, () => proveClusterIPsLeadNowhere(context))
}

async function proveClusterIPsLeadNowhere(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'iptables', {
    hint: 'make iptables, then make flush-nat; this lab begins in that mode (make reset-5).',
  })
  const scene = agentScene(context)
  await mustListenEverywhere(context, scene)
  chainsLeadToPods({ ...context, nodes: [snapshot.node(scene.node)] })
  const { address } = webService(snapshot)
  const path = packetPathOf(snapshot.node(scene.node), scene.client, { address, port: AGENT_PORT })
  if (path.end === 'delivered')
    fail({
      node: scene.node,
      look: onNode(scene.node, 'ip -brief address'),
      expected: `that no interface of ${scene.node} has a ClusterIP`,
      actual: `a packet for ${address}:${AGENT_PORT} ${describePath(path, scene.node)}`,
      hint: 'An earlier IPVS mode left its addresses: make flush-nat removes them.',
    })
  if (live) await mustBeClosed(live, [address], { scene, hint: 'make flush-nat removes what IPVS mode left.' })
  return { address }
}

/** IPVS mode by old rules: the client reaches the agent of its own node through every ClusterIP. */
export async function everyClusterIPLeadsToAgent(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, EXPOSED, () => proveEveryClusterIPLeadsToAgent(context))
}

async function proveEveryClusterIPLeadsToAgent(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: OLD_RULES })
  const scene = agentScene(context)
  ipvsIsAsMade(context, scene.node)
  await mustListenEverywhere(context, scene)
  const view = snapshot.node(scene.node)
  const addresses = clusterIPs(snapshot)
  for (const address of addresses) {
    const path = packetPathOf(view, scene.client, { address, port: AGENT_PORT })
    if (path.end === 'delivered') continue
    const filtered = path.end === 'stopped' && path.by.chain === ACCESS_FILTER
    fail({
      node: scene.node,
      look: onNode(scene.node, 'iptables -nvL INPUT; ip -brief address show kube-ipvs0'),
      expected: `a packet of the client for ${address}:${AGENT_PORT} delivered to what listens on the node`,
      actual: `it ${describePath(path, scene.node)}`,
      hint: filtered
        ? OLD_RULES
        : 'Take away what you have put into the tables yourself, and see that IPVS mode is whole.',
    })
  }
  if (live) await mustAnswerEverywhere(live, addresses, scene.node)
  return { version: view.kubeProxyVersion, addresses }
}

async function mustAnswerEverywhere(
  live: NonNullable<CheckContext['live']>,
  addresses: readonly string[],
  node: string,
): Promise<void> {
  const replies = await askAgents(live, addresses)
  for (const address of addresses) {
    const reply = replies.find((one) => one.address === address)
    if (reply?.node === node) continue
    fail({
      node,
      look: askCommand(address),
      expected: `an answer of the agent of ${node} on ${address}:${AGENT_PORT}`,
      actual: reply?.node ? `the agent of ${reply.node} answers` : reply?.error || 'no answer',
    })
  }
}

/** web has its Pods, the client is ready, and the agent beside it answers on the node's own address. */
export async function sceneIsReady(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const scene = agentScene(context)
  if (context.live) await mustAnswerOnNode(context.live, scene)
}
