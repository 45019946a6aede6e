import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { inChain } from '../../grading/difference-report.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import type { Truth } from '../../grading/question.ts'
import { type NodeView, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { nothingGoesBefore } from '../01-iptables/iptables-mode.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'
import { ACCESS_FILTER, OLD_RULES } from './access-filter.ts'
import { expectCounted, expectForwardRule, podAt, STOPPED_AND_COUNTED } from './forward-rule.ts'
import {
  AGENT_PORT,
  agentAt,
  agentScene,
  answered,
  clusterIPs,
  mustBeClosed,
  mustListenEverywhere,
  mustListenOnNodeAddress,
} from './node-agent.ts'
import { clientInIpvsMode, expectPacket, expectPredictedIpvs, filterHooks, type NodeTables } from './packet-path.ts'

const OWN_FILTER = 'own-filter-closed'
const BOUND = 'bound-agent-closed'

/** A rule of the learner on every node with an agent stops packets to a ClusterIP that are not for a Service port. */
export const ownFilterCloses = onceSeen(OWN_FILTER, async (context) => {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: OLD_RULES })
  const scene = agentScene(context)
  expectPredictedIpvs(context, scene.node)
  await mustListenEverywhere(context, scene)
  const service = webService(snapshot)
  const addresses = clusterIPs(snapshot)
  for (const { name } of nodesOfAgents(snapshot)) {
    const view = withoutAccessFilter(snapshot.node(name))
    const source = name === scene.node ? scene.client : (podOn(snapshot, name) ?? scene.client)
    for (const address of addresses)
      expectPacket(view, source, agentAt(address), {
        inspect: 'iptables -nvL INPUT',
        expected: `a rule of your own on ${name}, beside ${ACCESS_FILTER}, that stops packets to ${address}:${AGENT_PORT}`,
      }).isStopped()
    expectPacket(view, source, service, {
      inspect: 'iptables -nvL INPUT',
      expected: `that the Service ${service.name} stays open`,
      hint: 'Match address and port against the set KUBE-CLUSTER-IP, and stop only packets that are not in it.',
    }).isNotStopped()
  }
  const view = snapshot.node(scene.node)
  const hint = 'The rule must be in INPUT of that node.'
  if (live) await mustBeClosed(live, addresses, { scene, hint, service, view })
  return { addresses }
})

/** The agent listens only on the node's own address; it is unreachable through ClusterIPs without any rule. */
export const boundAgentIsClosed = onceSeen(BOUND, async (context) => {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: OLD_RULES })
  const scene = agentScene(context)
  await mustListenOnNodeAddress(context, scene)
  const { address } = webService(snapshot)
  expectPacket(withoutAccessFilter(snapshot.node(scene.node)), scene.client, agentAt(address), {
    inspect: 'iptables -nvL INPUT',
    expected: 'that no rule is needed to close the ClusterIPs to this agent',
    hint: 'Remove your own filter on every node: iptables -D in place of -I.',
  }).isDelivered()
  const hint = 'Is it bound to the address of the node?'
  if (live) await mustBeClosed(live, clusterIPs(snapshot), { scene, hint })
  return { address }
})

/** The node without kube-proxy's own filter, so that only the learner's rule is judged. */
function withoutAccessFilter(node: NodeView): NodeTables {
  const { name } = node
  const state = stateOf(node)
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

/** The address of a backend of web on a node, as an example of a Pod on that node. */
const podOn = (snapshot: Snapshot, node: string): string | undefined =>
  webService(snapshot).backends.find((backend) => backend.node === node)?.address

const CLOSED = 'stopped-in-either-mode'
const KERNEL_TABLES = new Set(['raw', 'mangle', 'nat', 'filter', 'security'])

/**
 * IPVS mode: a rule also stops the client's requests to web, and the rule that stopped them in iptables mode still exists.
 * One rule in PREROUTING is enough for both, because the paths of the modes differ only after it.
 */
export const stoppedInEitherMode = onceSeen(CLOSED, async (context) => {
  const { live } = context
  const { service, client, node, view } = clientInIpvsMode(context)
  const by = expectPacket(view, client, service, {
    inspect: 'iptables -nvL INPUT',
    expected: `a rule on ${node} that stops packets from ${client} to ${service.address} before IPVS`,
  }).isStopped(({ table }) => KERNEL_TABLES.has(table))
  // One rule in PREROUTING stops both; else the one of iptables mode must still be there, too.
  if (by.hook !== 'PREROUTING') expectForwardRule(context, view)
  for (const { address } of service.backends)
    expectPacket(view, client, podAt(address), {
      inspect: 'iptables -nvL FORWARD',
      expected: `that packets from the client directly to the Pod ${address} are stopped as well`,
      hint: 'The rule in FORWARD stops those: keep it.',
    }).isStopped()
  if (live)
    await expectCounted(
      live,
      { node, rule: by, inspect: `iptables -t ${by.table} -nvL ${by.chain}` },
      () => answered(live, service),
      STOPPED_AND_COUNTED,
    )
  return { ...by, node }
})

/** Question: the chain of filter that the client's packet to web traverses before IPVS. */
export function chainBeforeIpvs(context: CheckContext): Truth {
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=1.20' })
  const service = webService(context.snapshot)
  const { address: client, node } = clientPod(context)
  return {
    accepts: filterHooks(context.snapshot.node(node), client, service),
    inspect: `make trace FROM=pod/client TO=svc/${service.name}:${service.port} NODE=${node}`,
  }
}

const OWN_COMMENT = /--comment "?lab-5(?!\d)/

/**
 * kube-proxy 1.20 also had this chain in nat. Newer versions do not remove it, because the kubelet has a chain of that name.
 */
const leftByOldVersion = inChain('nat KUBE-FIREWALL')

/** At the end: no rule of the learner is left, and kube-proxy's state on every node equals the prediction. */
export function nothingIsLeft(context: CheckContext): void {
  const { nodes, snapshot } = context
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=own' })
  webService(snapshot)
  expectNodes(nodes).noRuleWhere(({ spec }) => OWN_COMMENT.test(spec), {
    inspect: 'iptables-save | grep lab-5',
    expected: "no rule with this lab's comment",
    hint: 'Remove it: iptables -D in place of -A, or -I.',
  })
  nothingGoesBefore(nodes)
  for (const { name } of nodes) expectPredictedIpvs(context, name)
  expectNodes(nodes)
    .where((where) => !leftByOldVersion(where), 'iptables-save; ipset save; ipvsadm -Sn; ip address show kube-ipvs0')
    .equalPrediction(
      'ipvs',
      'exactly the rules, sets, virtual servers and addresses that follow from the Services, and no older ones',
    )
}
