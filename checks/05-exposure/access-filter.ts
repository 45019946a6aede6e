import { targetOf } from '../../dataplane/rule.ts'
import type { Advice } from '../../grading/advice.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { featuresOn } from '../../grading/evaluate.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { expectThat, onNode } from '../../grading/failure.ts'
import { inChain } from '../../grading/predicted-part.ts'
import type { Truth } from '../../grading/question.ts'
import { kubeProxyVersionOf, type NodeView, stateOf } from '../../grading/snapshot.ts'
import { WITH_CURRENT_RULES, WITH_OLD_RULES } from './client-node.ts'
import { expectCounted } from './forward-rule.ts'
import {
  AGENT_PORT,
  agentAt,
  agentInIpvsMode,
  clientAndAgent,
  clusterIPs,
  expectClosed,
  expectListenerEverywhere,
} from './node-agent.ts'
import { expectPacket } from './packet-path.ts'

/** kube-proxy's chain that closes ClusterIPs except for Service ports, since 1.26. */
export const ACCESS_FILTER = 'KUBE-IPVS-FILTER'

/** How to get the older rules on either kind of cluster. */
export const OLD_RULES: Advice = {
  hint: `On a cluster that runs one version only, remove the jump to ${ACCESS_FILTER} from INPUT; kube-proxy adds it again at its next periodic sync. On the others, switch to the older version:`,
  next: `make iptables && ${WITH_OLD_RULES}`,
}

const LIST_FILTER = `iptables -nvL ${ACCESS_FILTER}`

/**
 * A kube-proxy since 1.26: its own chain rejects the agent's port on every ClusterIP, and lets
 * Services through.
 */
export async function accessFilterRejects(context: CheckContext): Promise<void> {
  const { nodes, snapshot, live } = context
  expectMode(context, 'ipvs', { next: WITH_CURRENT_RULES })
  for (const node of nodes) expectAccessFilter(node)
  const place = agentInIpvsMode(context, { next: WITH_CURRENT_RULES })
  await expectListenerEverywhere(context, place)
  expectNodes(nodes)
    .where(
      (where, { expected, actual }) =>
        inChain(`filter ${ACCESS_FILTER}`)(where) ||
        (inChain('filter INPUT')(where) && `${expected}${actual}`.includes(ACCESS_FILTER)),
      `iptables -nvL INPUT; ${LIST_FILTER}`,
    )
    .equalPrediction(
      'ipvs',
      `INPUT leads to ${ACCESS_FILTER}, which lets Services return and rejects the rest`,
    )
  expectNodes(nodes)
    .sets('KUBE-IPVS-IPS')
    .and(expectNodes(nodes).sets('KUBE-CLUSTER-IP'))
    .equalPrediction(
      'ipvs',
      'every address of kube-ipvs0 in KUBE-IPVS-IPS, and every port of a Service in KUBE-CLUSTER-IP',
    )
  const { node, service, client } = place
  const by = expectPacket(node, client, agentAt(service.address), {
    inspect: 'iptables -nvL INPUT',
    expected: `that ${ACCESS_FILTER} is what stops a packet for ${service.address}:${AGENT_PORT}`,
    hint: 'Remove your own rules: iptables -D instead of -I.',
  }).isStopped(({ chain }) => chain === ACCESS_FILTER)
  if (!live) return
  const closed = async () => {
    await expectClosed(live, clusterIPs(snapshot), place, { next: WITH_CURRENT_RULES, service })
    return 0
  }
  const expected = `packets on the rule of ${ACCESS_FILTER} that rejects`
  await expectCounted(live, { node: node.name, rule: by, inspect: LIST_FILTER }, closed, {
    expected,
  })
}

function expectAccessFilter(node: NodeView): void {
  expectThat(featuresOn(node).ipvsFilter, {
    node: node.name,
    inspect: 'kubectl -n kube-system get daemonset kube-proxy -o wide',
    expected: 'a kube-proxy of 1.26 or newer on every node',
    actual: `${kubeProxyVersionOf(node)} runs`,
    next: WITH_CURRENT_RULES,
  })
}

/** Question: the set that the rejecting rule matches. */
export function rejectedSet(context: CheckContext): Truth {
  expectMode(context, 'ipvs', { next: WITH_CURRENT_RULES })
  const { node } = clientAndAgent(context)
  const chain = stateOf(node).iptables.get('filter')?.get(ACCESS_FILTER)
  const rule = chain?.rules.find(({ spec }) => targetOf(spec) === 'REJECT')
  const set = / --match-set (\S+) /.exec(` ${rule?.spec ?? ''}`)?.[1]
  const inspect = onNode(node.name, LIST_FILTER)
  expectThat(set !== undefined, {
    node: node.name,
    inspect,
    expected: `a rule in ${ACCESS_FILTER} that rejects packets to the addresses of a set`,
    actual: chain ? 'no such rule' : 'no such chain',
    next: WITH_CURRENT_RULES,
  })
  const passing = (chain?.rules ?? []).flatMap(
    ({ spec }) => / --match-set (\S+) /.exec(` ${spec}`)?.[1] ?? [],
  )
  return {
    accepts: [set],
    inspect,
    wrong: [
      ...passing
        .filter((name) => name !== set)
        .map((name) => ({
          when: name,
          because: `Packets that match ${name} return from the chain: that set lists address and port of what is allowed. Which rule has the target REJECT?`,
        })),
      {
        when: ACCESS_FILTER,
        because: 'That is the chain. The name of the set follows --match-set.',
      },
    ],
    because:
      'A set of addresses without ports. The rules above it have let the permitted ports pass.',
  }
}

/** Question: the number of addresses that IPVS mode adds to a listener on 0.0.0.0. */
export function gainedAddresses(context: CheckContext): Truth {
  expectMode(context, 'ipvs', { next: WITH_OLD_RULES })
  const { node } = clientAndAgent(context)
  const link = stateOf(node).links.find(({ name }) => name === 'kube-ipvs0')
  const own = (link?.addresses ?? []).filter(({ family }) => family === 'inet')
  const { virtualServers } = stateOf(node)
  return {
    accepts: [`${own.length}`],
    inspect: onNode(node.name, 'ip -brief -4 address show kube-ipvs0'),
    wrong: [
      {
        when: `${virtualServers.length}`,
        because:
          'That is the number of virtual servers, one for each address and port. The listener gains each address once.',
      },
      {
        when: '1',
        because: 'One new interface, but it has an address for every Service.',
      },
      {
        when: '0',
        because:
          '0.0.0.0 stands for all addresses of the node, also for those of an interface that is down.',
      },
    ],
    because:
      'One for each ClusterIP: a Service that is created later adds another one, on every node.',
  }
}
