// Lab 5: who reaches the agent of a node through ClusterIPs: with each mode, and after each
// mitigation.

import type { Advice } from '../../grading/advice.ts'
import { type CheckContext, type LiveContext, onceSeen } from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { podsWithLabel, webService } from '../../grading/expect-object.ts'
import { inChain } from '../../grading/predicted-part.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { expectListener } from '../../grading/traffic.ts'
import { chainsLeadToPods, expectJumpsFirst } from '../01-iptables/service-chains.ts'
import { ACCESS_FILTER, OLD_RULES } from './access-filter.ts'
import { expectPredictedIpvs, FROM_IPTABLES_MODE, WITH_CURRENT_RULES } from './client-node.ts'
import {
  AGENT_PORT,
  agentAt,
  agentInIpvsMode,
  clientAndAgent,
  clusterIPs,
  expectClosed,
  expectListenerEverywhere,
  expectOpen,
  ownAddress,
} from './node-agent.ts'
import { nodesAreServed, repliesPassRules, withoutAccessFilter } from './node-requests.ts'
import { expectPacket } from './packet-path.ts'

const LEFT_BY_IPVS_MODE: Advice = {
  hint: 'The addresses are leftovers of IPVS mode. Remove them:',
  next: 'make flush-nat',
}

/**
 * iptables mode: the agent listens on all addresses of its node, which do not include ClusterIPs.
 */
export const clusterIPsLeadNowhere = onceSeen('closed-in-iptables-mode', async (context) => {
  const { live } = context
  expectMode(context, 'iptables', FROM_IPTABLES_MODE)
  const place = clientAndAgent(context)
  const { client, node, service } = place
  const { address } = service
  await expectListenerEverywhere(context, place)
  chainsLeadToPods({ ...context, nodes: [node] })
  expectPacket(node, client, agentAt(address), {
    inspect: 'ip -brief address',
    expected: `that no interface of ${node.name} has a ClusterIP`,
    ...LEFT_BY_IPVS_MODE,
  }).isNotDelivered()
  if (live)
    await expectClosed(live, [address], place, {
      ...LEFT_BY_IPVS_MODE,
    })
  return { address }
})

/**
 * IPVS mode with the rules of kube-proxy 1.20: the client reaches the agent of its own node through
 * every ClusterIP.
 */
export const everyClusterIPLeadsToAgent = onceSeen('exposed-in-ipvs-mode', async (context) => {
  const { snapshot, live } = context
  const place = agentInIpvsMode(context, OLD_RULES)
  const { client, node } = place
  const addresses = clusterIPs(snapshot)
  await expectListenerEverywhere(context, place)
  for (const address of addresses)
    expectPacket(node, client, agentAt(address), {
      inspect: 'iptables -nvL INPUT; ip -brief address show kube-ipvs0',
      expected: `a packet of the client for ${address}:${AGENT_PORT} delivered to a listener on the node`,
      hint: `Remove the rules that you added yourself. If ${ACCESS_FILTER} stops it: ${OLD_RULES.hint}`,
      next: OLD_RULES.next,
    }).isDelivered()
  if (live) await expectOpen(live, client, addresses)
  return { version: node.kubeProxyVersion, addresses }
})

/**
 * A rule of the learner on every node with an agent stops packets to a ClusterIP that are not for a
 * Service port, and no replies to the node's own requests.
 */
export const ownFilterCloses = onceSeen('own-filter-closed', async (context) => {
  const { snapshot, live } = context
  const place = agentInIpvsMode(context, OLD_RULES)
  const { client, node, service } = place
  const addresses = clusterIPs(snapshot)
  await expectListenerEverywhere(context, place)
  for (const agentNode of nodesOfAgents(snapshot)) {
    const { name } = agentNode
    const ownRules = withoutAccessFilter(agentNode)
    const source = agentNode === node ? client : (podOn(snapshot, name) ?? client)
    for (const address of addresses)
      expectPacket(ownRules, source, agentAt(address), {
        inspect: 'iptables -nvL INPUT',
        expected: `a rule of your own on ${name}, beside ${ACCESS_FILTER}, that stops packets to ${address}:${AGENT_PORT}`,
      }).isStopped()
    expectPacket(ownRules, source, service, {
      inspect: 'iptables -nvL INPUT',
      expected: `that the Service ${service.name} stays open`,
      hint: 'Match address and port against the set KUBE-CLUSTER-IP, and stop only packets that are not in it.',
    }).isNotStopped()
  }
  repliesPassRules(context)
  const hint = 'The rule must be in INPUT of that node.'
  if (live) {
    await expectClosed(live, addresses, place, { hint, service })
    await nodesAreServed({ ...context, live })
  }
  return { addresses }
})

/**
 * The agent listens only on the node's own address; it is unreachable through ClusterIPs without
 * any rule.
 */
export const boundAgentIsClosed = onceSeen('bound-agent-closed', async (context: LiveContext) => {
  const { snapshot, live } = context
  const place = agentInIpvsMode(context, OLD_RULES)
  const { client, node, service } = place
  const { address } = service
  const own = ownAddress(place)
  await expectListener(
    live,
    { node: node.name, port: AGENT_PORT },
    (listening) => listening.join() === own,
    {
      expected: `an agent that listens on ${own}:${AGENT_PORT} and nowhere else`,
      next: "kubectl set env daemonset/node-agent 'BIND=$(HOST_IP)'",
    },
  )
  expectPacket(withoutAccessFilter(node), client, agentAt(address), {
    inspect: 'iptables -nvL INPUT',
    expected: 'that no rule is needed to close the ClusterIPs to this agent',
    hint: 'Remove your own filter on every node: iptables -D in place of -I.',
  }).isDelivered()
  await expectClosed(live, clusterIPs(snapshot), place, {
    hint: 'Is it bound to the address of the node?',
  })
  return { address }
})

function nodesOfAgents(snapshot: Snapshot): readonly NodeView[] {
  const names = podsWithLabel(snapshot, 'node-agent').map(({ spec }) => spec?.nodeName)
  return snapshot.nodes.filter(({ name }) => names.includes(name))
}

/** A backend of web on a node, as an example of a Pod on that node. */
function podOn(snapshot: Snapshot, node: string): { sender: { pod: string } } | undefined {
  const backend = webService(snapshot).backends.find((one) => one.node === node)
  return backend && { sender: { pod: backend.address } }
}

const OWN_COMMENT = /--comment "?lab-5(?!\d)/

/**
 * kube-proxy 1.20 also had this chain in nat. Newer versions do not remove it, because the kubelet
 * has a chain of that name.
 */
const leftByOldVersion = inChain('nat KUBE-FIREWALL')

/**
 * At the end: no rule of the learner is left, and kube-proxy's state on every node equals the
 * prediction.
 */
export function nothingIsLeft(context: CheckContext): void {
  const { nodes, snapshot } = context
  expectMode(context, 'ipvs', { next: WITH_CURRENT_RULES })
  webService(snapshot)
  expectNodes(nodes).noRuleWhere(
    ({ spec }) => OWN_COMMENT.test(spec),
    'iptables-save | grep lab-5',
    "no rule with this lab's comment",
    { hint: 'Remove it: iptables -D in place of -A, or -I.' },
  )
  expectJumpsFirst(nodes)
  for (const node of nodes) expectPredictedIpvs(context, node)
  expectNodes(nodes)
    .where(
      (where) => !leftByOldVersion(where),
      'iptables-save; ipset save; ipvsadm -Sn; ip address show kube-ipvs0',
    )
    .equalPrediction(
      'ipvs',
      'exactly the rules, sets, virtual servers and addresses that follow from the Services, and no older ones',
    )
}
