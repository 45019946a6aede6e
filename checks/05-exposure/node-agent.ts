import type { CheckContext } from '../../grading/check-context.ts'
import { expectReadyPod, podsWithLabel } from '../../grading/expect-object.ts'
import { expectListener } from '../../grading/expect-traffic.ts'
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
  const agent = podsWithLabel(snapshot, 'node-agent').find(({ spec }) => spec?.nodeName === node)
  expectReadyPod(agent, 'node-agent', {
    node,
    look: 'kubectl get pods -l app=node-agent -o wide',
    expected: `a node agent that is ready on ${node}, beside the Pod client`,
    hint: `kubectl apply -f ${MANIFEST}`,
  })
  return { client, node, nodeAddress: snapshot.objects.nodes.find(({ name }) => name === node)?.internalIPs[0] ?? '' }
}

/** The agent's port on an address. */
export const agentAt = (address: string) => ({ address, port: AGENT_PORT })

/** IPv4 ClusterIPs of all Services. */
export const clusterIPs = ({ objects }: Snapshot): string[] =>
  objects.services.flatMap((service) => service.clusterIPs.filter((ip) => /^\d/.test(ip)))

/** The agent beside the client listens on all addresses. A capture does not record what listens. */
export async function mustListenEverywhere({ live }: CheckContext, { node }: AgentScene): Promise<void> {
  const isAny = (addresses: readonly string[]) => addresses.some((address) => ANY_ADDRESS.has(address))
  if (live)
    await expectListener(live, { node, port: AGENT_PORT }, isAny, {
      expected: `an agent that listens on 0.0.0.0:${AGENT_PORT}`,
      hint: 'kubectl set env daemonset/node-agent BIND=0.0.0.0',
    })
}

/** The agent beside the client listens on the node's own address and on no other. */
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
