import { hasCondition } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'

export const AGENT_PORT = 9100
const MANIFEST = 'labs/05-exposure/manifests/node-agent.yaml'
const ANY_ADDRESS = new Set(['0.0.0.0', '*', '[::]'])

/** The client Pod, and the agent that listens on the same node. */
export interface AgentScene {
  client: string
  node: string
  /** The node's own address. */
  nodeAddress: string
}

/** Where the client and the agent beside it are. Fails when one of them is not ready. */
export function agentScene(context: CheckContext): AgentScene {
  const { address: client, node } = clientPod(context)
  const { snapshot } = context
  const agent = snapshot.items.find(
    ({ kind, metadata, spec }) =>
      kind === 'Pod' && metadata.labels?.app === 'node-agent' && spec?.nodeName === node && !metadata.deletionTimestamp,
  )
  const nodeAddress = snapshot.objects.nodes.find(({ name }) => name === node)?.internalIPs[0] ?? ''
  if (agent && hasCondition(agent, 'Ready')) return { client, node, nodeAddress }
  fail({
    node,
    look: 'kubectl get pods -l app=node-agent -o wide',
    expected: `a node agent that is ready on ${node}, beside the Pod client`,
    actual: agent ? `${agent.metadata.name} is not ready` : 'no agent on that node',
    hint: `kubectl apply -f ${MANIFEST}`,
  })
}

/** IPv4 ClusterIPs of all Services. */
export const clusterIPs = ({ objects }: Snapshot): string[] =>
  objects.services.flatMap((service) => service.clusterIPs.filter((ip) => /^\d/.test(ip)))

/** Addresses on which somebody listens on the agent's port of a node. */
async function listeners(live: LiveCluster, node: string): Promise<string[]> {
  const { stdout } = await live.onNode(node, `ss -Hltn 'sport = :${AGENT_PORT}'`)
  return [...stdout.matchAll(/^\S+ +\d+ +\d+ +(\S+):\d+ /gm)].map(([, address = '']) => address)
}

/** The agent beside the client listens on all addresses. A capture does not say what listens. */
export async function mustListenEverywhere({ live }: CheckContext, { node }: AgentScene): Promise<void> {
  if (!live) return
  const found = await listeners(live, node)
  if (found.some((address) => ANY_ADDRESS.has(address))) return
  fail({
    node,
    look: onNode(node, `ss -ltn`),
    expected: `an agent that listens on 0.0.0.0:${AGENT_PORT}`,
    actual: found.length > 0 ? `it listens on ${found.join(', ')}` : `nobody listens on port ${AGENT_PORT}`,
    hint: 'kubectl set env daemonset/node-agent BIND=0.0.0.0',
  })
}

/** The agent beside the client listens on the node's own address and on no other. */
export async function mustListenOnNodeAddress(
  { live }: CheckContext,
  { node, nodeAddress }: AgentScene,
): Promise<void> {
  if (!live) return
  const found = await listeners(live, node)
  if (found.join() === nodeAddress) return
  fail({
    node,
    look: onNode(node, `ss -ltn`),
    expected: `an agent that listens on ${nodeAddress}:${AGENT_PORT} and nowhere else`,
    actual: found.length > 0 ? `it listens on ${found.join(', ')}` : `nobody listens on port ${AGENT_PORT}`,
    hint: "kubectl set env daemonset/node-agent 'BIND=$(HOST_IP)'",
  })
}
