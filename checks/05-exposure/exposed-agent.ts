import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { webService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { backendsOnTwoNodes } from '../02-ipvs/web-requests.ts'
import { ACCESS_FILTER, OLD_RULES } from './access-filter.ts'
import {
  AGENT_PORT,
  agentAt,
  agentScene,
  askAgents,
  clusterIPs,
  expectAgent,
  mustAnswerOnNode,
  mustBeClosed,
  mustListenEverywhere,
} from './node-agent.ts'
import { expectPacket, expectPredictedIpvs } from './packet-path.ts'

const CLOSED = 'closed-in-iptables-mode'
const EXPOSED = 'exposed-in-ipvs-mode'

/** iptables mode: the agent listens on all addresses of its node, which do not include ClusterIPs. */
export const clusterIPsLeadNowhere = onceSeen(CLOSED, async (context) => {
  const { snapshot, live } = context
  expectMode(context, 'iptables', {
    hint: 'make iptables, then make flush-nat; this lab begins in that mode (make reset-5).',
  })
  const scene = agentScene(context)
  await mustListenEverywhere(context, scene)
  chainsLeadToPods({ ...context, nodes: [snapshot.node(scene.node)] })
  const { address } = webService(snapshot)
  expectPacket(snapshot.node(scene.node), scene.client, agentAt(address), {
    inspect: 'ip -brief address',
    expected: `that no interface of ${scene.node} has a ClusterIP`,
    hint: 'The addresses are leftovers of IPVS mode: make flush-nat removes them.',
  }).isNotDelivered()
  if (live) await mustBeClosed(live, [address], { scene, hint: 'make flush-nat removes the leftovers of IPVS mode.' })
  return { address }
})

/** IPVS mode with the rules of kube-proxy 1.20: the client reaches the agent of its own node through every ClusterIP. */
export const everyClusterIPLeadsToAgent = onceSeen(EXPOSED, async (context) => {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: OLD_RULES })
  const scene = agentScene(context)
  expectPredictedIpvs(context, scene.node)
  await mustListenEverywhere(context, scene)
  const view = snapshot.node(scene.node)
  const addresses = clusterIPs(snapshot)
  for (const address of addresses)
    expectPacket(view, scene.client, agentAt(address), {
      inspect: 'iptables -nvL INPUT; ip -brief address show kube-ipvs0',
      expected: `a packet of the client for ${address}:${AGENT_PORT} delivered to a listener on the node`,
      hint: (path) =>
        path.end === 'stopped' && path.by.chain === ACCESS_FILTER
          ? OLD_RULES
          : 'Remove the rules that you added yourself, and check that IPVS mode is complete.',
    }).isDelivered()
  if (live) await mustAnswerEverywhere(live, addresses, scene.node)
  return { version: view.kubeProxyVersion, addresses }
})

async function mustAnswerEverywhere(live: LiveCluster, addresses: readonly string[], node: string): Promise<void> {
  const replies = await askAgents(live, addresses)
  for (const address of addresses)
    expectAgent(replies, { address, node, expected: `an answer of the agent of ${node} on ${address}:${AGENT_PORT}` })
}

/** web has its Pods, the client is ready, and the agent beside it answers on the node's own address. */
export async function sceneIsReady(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const scene = agentScene(context)
  if (context.live) await mustAnswerOnNode(context.live, scene)
}
