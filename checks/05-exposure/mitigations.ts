import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { holdsOnceSeen } from '../../grading/seen-moment.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { ACCESS_FILTER, OLD_RULES } from './access-filter.ts'
import { mustBeClosed } from './agent-requests.ts'
import {
  AGENT_PORT,
  agentAt,
  agentScene,
  clusterIPs,
  mustListenEverywhere,
  mustListenOnNodeAddress,
} from './node-agent.ts'
import { expectPacket, ipvsIsAsMade, type NodeTables } from './packet-path.ts'

const OWN_FILTER = 'own-filter-closed'
const BOUND = 'bound-agent-closed'

/** A rule of the learner's on every node with an agent stops what is for a ClusterIP but for no Service port. */
export async function ownFilterCloses(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, OWN_FILTER, () => proveOwnFilterCloses(context))
}

async function proveOwnFilterCloses(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: OLD_RULES })
  const scene = agentScene(context)
  ipvsIsAsMade(context, scene.node)
  await mustListenEverywhere(context, scene)
  const service = webService(snapshot)
  const addresses = clusterIPs(snapshot)
  for (const { name } of nodesOfAgents(snapshot)) {
    const view = withoutAccessFilter(snapshot.node(name))
    const source = name === scene.node ? scene.client : (podOn(snapshot, name) ?? scene.client)
    for (const address of addresses)
      expectPacket(view, source, agentAt(address), {
        look: 'iptables -nvL INPUT',
        expected: `a rule of your own on ${name}, beside ${ACCESS_FILTER}, that stops what is for ${address}:${AGENT_PORT}`,
      }).isStopped()
    expectPacket(view, source, service, {
      look: 'iptables -nvL INPUT',
      expected: `that the Service ${service.name} stays open`,
      hint: 'Match address and port against the set KUBE-CLUSTER-IP, and stop only what is not in it.',
    }).isNotStopped()
  }
  const view = snapshot.node(scene.node)
  const hint = 'The rule must stand in INPUT of that node.'
  if (live) await mustBeClosed(live, addresses, { scene, hint, service, view })
  return { addresses }
}

/** The agent listens on the node's own address alone; no rule stops anything, and yet no ClusterIP leads to it. */
export async function boundAgentIsClosed(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, BOUND, () => proveBoundAgentIsClosed(context))
}

async function proveBoundAgentIsClosed(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: OLD_RULES })
  const scene = agentScene(context)
  await mustListenOnNodeAddress(context, scene)
  const { address } = webService(snapshot)
  expectPacket(withoutAccessFilter(snapshot.node(scene.node)), scene.client, agentAt(address), {
    look: 'iptables -nvL INPUT',
    expected: 'that no rule is needed to close the ClusterIPs to this agent',
    hint: 'Remove your own filter on every node: iptables -D in place of -I.',
  }).isDelivered()
  const hint = 'Is it bound to the address of the node?'
  if (live) await mustBeClosed(live, clusterIPs(snapshot), { scene, hint })
  return { address }
}

/** The node as it would be without kube-proxy's own filter, so that a learner's rule is judged by itself. */
function withoutAccessFilter({ name, state }: NodeView): NodeTables {
  const filter = state.iptables.get('filter')
  const input = filter?.get('INPUT')
  if (!filter || !input) return { name, state }
  const rules = input.rules.filter(({ spec }) => !spec.endsWith(`-j ${ACCESS_FILTER}`))
  const table = new Map(filter).set('INPUT', { ...input, rules })
  return { name, state: { ...state, iptables: new Map(state.iptables).set('filter', table) } }
}

function nodesOfAgents(snapshot: Snapshot): readonly NodeView[] {
  const names = snapshot.items.flatMap(({ kind, metadata, spec }) =>
    kind === 'Pod' && metadata.labels?.app === 'node-agent' ? (spec?.nodeName ?? []) : [],
  )
  return snapshot.nodes.filter(({ name }) => names.includes(name))
}

/** The address of some backend of web on a node: its packets come in as any Pod's of that node. */
const podOn = (snapshot: Snapshot, node: string): string | undefined =>
  webService(snapshot).backends.find((backend) => backend.node === node)?.address
