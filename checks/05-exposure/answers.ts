// What lab 5 predicts and asks beside its states: the truth by the rules of the client's node, with
// the typical wrong answers.

import { NodeNetwork } from '../../dataplane/trace/node-network.ts'
import type { CheckContext, Truth } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { clusterService } from '../../grading/expect-object.ts'
import { onNode } from '../../grading/failure.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { controlPlaneOf, nodeAddressOf, stateOf } from '../../grading/snapshot.ts'
import {
  type ClientNode,
  clientInIpvsMode,
  clientNode,
  FROM_IPTABLES_MODE,
  WITH_OLD_RULES,
} from './client-node.ts'
import { AGENT_PORT, agentAt } from './node-agent.ts'
import {
  CLIENT_PORT,
  withInputRule,
  withoutOwnRules,
  withRulesForReplies,
} from './node-requests.ts'
import { packetPathOf } from './packet-path.ts'

const API = 'kubernetes'
const apiService = ({ snapshot }: CheckContext) =>
  clusterService(snapshot, API, { expected: 'the Service kubernetes' })

/** Predict: what a request to the agent's port on web's ClusterIP gets in iptables mode. */
export function agentInIptablesMode(context: CheckContext): Truth {
  expectMode(context, 'iptables', FROM_IPTABLES_MODE)
  const { client, node, service } = clientNode(context)
  const { end } = packetPathOf(node, client, agentAt(service.address))
  return {
    accepts: [{ delivered: 'answer', stopped: 'refused', 'sent on': 'silence' }[end]],
    inspect: onNode(node.name, `ip route get ${service.address}`),
    wrong: [
      {
        when: 'answer',
        because:
          'A ClusterIP is no address of the node in this mode, so a listener on 0.0.0.0 does not listen there.',
      },
      {
        when: 'refused',
        because:
          'To be refused, the packet would have to reach a machine that has the address, or a REJECT rule. No rule matches this port, and no machine has the address.',
      },
    ],
    because:
      'No rule matches the port, so the packet is routed out of the node, to an address that no machine has.',
  }
}

/** Predict: which destination a packet to web has when it passes FORWARD. */
export function destinationInForward(context: CheckContext): Truth {
  expectMode(context, 'iptables', FROM_IPTABLES_MODE)
  const { client, node, service } = clientNode(context)
  const { hops } = traceOf(node, client.sender, service)
  const isTranslated = hops.some(
    ({ hook, rule }) => hook === 'PREROUTING' && / -j DNAT /.test(rule),
  )
  return {
    accepts: [isTranslated ? 'Pod' : 'ClusterIP'],
    inspect: onNode(node.name, 'iptables -nvL FORWARD'),
    wrong: [
      {
        when: 'ClusterIP',
        because:
          'kube-proxy translates in PREROUTING, before the routing decision. In FORWARD the packet already has the address and the port of a Pod.',
      },
    ],
    because:
      'DNAT comes first, in PREROUTING. That is why the rule matches port 80 of the Pods and not the port of the Service.',
  }
}

/** Predict: whose agent answers on the API server's ClusterIP. */
export function agentBehindApiAddress(context: CheckContext): Truth {
  const { client, node } = clientInIpvsMode(context)
  const { address } = apiService(context)
  const isDelivered = packetPathOf(node, client, agentAt(address)).end === 'delivered'
  const others = context.nodes.map(({ name }) => name).filter((name) => name !== node.name)
  const controlPlane = controlPlaneOf(context.snapshot)?.name
  return {
    accepts: [isDelivered ? node.name : 'none'],
    inspect: onNode(node.name, `ip route get ${address}`),
    wrong: [
      {
        when: 'none',
        because:
          'So it was in iptables mode. Now kube-ipvs0 of every node has the address, and a listener on 0.0.0.0 listens there, too.',
      },
      ...others.map((name) => ({
        when: name,
        because:
          name === controlPlane
            ? `Only port ${apiService(context).port} of ${address} leads to the API server. For any other port IPVS has no virtual server, and the packet stays on the node where the client runs.`
            : "The packet never leaves the client's node: the address is local there.",
      })),
    ],
    because: `kube-ipvs0 makes ${address} an address of ${node.name}, the client's own node. The packet never leaves it.`,
  }
}

/** Predict: how far a rule in FORWARD counts a request through web in IPVS mode. */
export function countInForward(context: CheckContext): Truth {
  const { client, node, service } = clientInIpvsMode(context)
  const { hooks } = traceOf(node, client.sender, service)
  const passes = hooks.includes('FORWARD')
  return {
    accepts: [passes ? '1' : '0'],
    inspect: onNode(node.name, 'iptables -nvL FORWARD'),
    wrong: [
      {
        when: passes ? '0' : '1',
        because:
          'In iptables mode the packet was addressed to a Pod when the kernel decided about its route. Now it is still addressed to the ClusterIP, which is an address of this node: it goes to INPUT.',
      },
    ],
    because:
      'IPVS takes the packet on its way into the node and sends it on from LOCAL_OUT. FORWARD never sees it.',
  }
}

const BROAD_RULE =
  '-d 10.96.0.0/16 -m set ! --match-set KUBE-CLUSTER-IP dst,dst -j REJECT --reject-with icmp-port-unreachable'

/**
 * Predict: which requests are answered with the first form of the filter, by adding it to the
 * node's rules.
 */
export function answeredWithBroadRule(context: CheckContext): Truth {
  const place = clientInIpvsMode(context)
  const { client, node, service } = place
  const filtered = withInputRule(withoutOwnRules(node), BROAD_RULE)
  const reaches = (to: { address: string; port: number }) =>
    packetPathOf(filtered, client, to).end !== 'stopped'
  const isReplied = (address: string) =>
    packetPathOf(withRulesForReplies(filtered), fromBackend(place), { address, port: CLIENT_PORT })
      .end !== 'stopped'
  const answered = [
    ...(reaches(service) ? ['client-web'] : []),
    ...(reaches(agentAt(service.address)) ? ['client-agent'] : []),
    ...(isReplied(service.address) ? ['node-web'] : []),
    ...(isReplied(apiService(context).address) ? ['node-api'] : []),
  ]
  return {
    accepts: [answered.join(', ')],
    inspect: onNode(node.name, 'iptables -nvL INPUT'),
    wrong: [
      {
        when: (answer) => answer.includes('client-agent'),
        because: `Port ${AGENT_PORT} is in no set, so the rule rejects the packet before it reaches the agent.`,
      },
      {
        when: (answer) => !answer.includes('client-web'),
        because:
          "The Pod's packet for port 80 of web is in the set and passes. Replies to a Pod are forwarded, so no rule in INPUT matches them.",
      },
      {
        when: (answer) => answer.includes('node-'),
        because:
          "The node's request does not pass INPUT, but the reply to it does: addressed to the ClusterIP, and to the port of the client, which is in no set.",
      },
    ],
    because:
      'Packets of Pods are judged as intended. The node itself gets no reply any longer, because the rule takes replies for packets to a forbidden port.',
  }
}

/** A packet of one of web's Pods. */
const fromBackend = ({ service }: ClientNode) => ({
  sender: { outside: service.backends[0]?.address ?? '' },
})

/** Question: the destination of the reply to the node's own request to the API server, in INPUT. */
export function destinationOfReply(context: CheckContext): Truth {
  expectMode(context, 'ipvs', { next: WITH_OLD_RULES })
  const { node } = clientNode(context)
  const { address } = apiService(context)
  const { links, routes } = stateOf(node)
  const own = nodeAddressOf(context.snapshot, node.name)
  const controlPlane = controlPlaneOf(context.snapshot)
  const server = controlPlane && nodeAddressOf(context.snapshot, controlPlane.name)
  return {
    accepts: [new NodeNetwork(links, routes).sourceTo(address) ?? own],
    inspect: onNode(node.name, `conntrack -L -d ${address}; ip route get ${address}`),
    wrong: [
      {
        when: own,
        because: `With that address the reply arrives on eth0. But masquerading has put it there, and conntrack translates it back in PREROUTING, before INPUT: src= of the first half is what the node sent with.`,
      },
      ...(server === undefined
        ? []
        : [
            {
              when: server,
              because:
                'That is where the reply comes from: the real server behind the virtual one.',
            },
          ]),
    ],
    because: `${address} is an address of the node, so the kernel takes it as the source of the node's own request to it. The reply is addressed to it, at the port of the client.`,
  }
}

/**
 * Predict: who refuses a packet for the agent's port when the agent listens on the node's own
 * address only.
 */
export function whoRefuses(context: CheckContext): Truth {
  const { client, node, service } = clientInIpvsMode(context)
  const { end } = packetPathOf(withoutOwnRules(node), client, agentAt(service.address))
  return {
    accepts: [{ delivered: 'kernel', stopped: 'rule', 'sent on': 'nobody' }[end]],
    inspect: onNode(node.name, 'ss -ltn; iptables -nvL INPUT'),
    wrong: [
      {
        when: 'rule',
        because:
          'kube-proxy 1.20 writes no rule about it, and yours is deleted. `iptables -nvL INPUT` shows that nothing counts.',
      },
      {
        when: 'nobody',
        because:
          'A packet without an answer is one that no machine takes. This one is delivered to the node, whose kernel resets a connection to a port without a listener.',
      },
    ],
    because:
      'The packet is delivered, no process listens on that address and port, and the kernel answers with a reset.',
  }
}
