// Lab 1: what is predicted and asked beside the state of each step, as the nodes show it.

import { HOOKS, type Hook } from '../../dataplane/trace/step.ts'
import type { Question, Truth } from '../../grading/check-context.ts'
import { clusterService, webService } from '../../grading/expect-object.ts'
import { expectThat, onNode } from '../../grading/failure.ts'
import { LOOK_AT_PROBES } from '../../grading/packet-counters.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { nodeAddressOf, objectsOf, stateOf } from '../../grading/snapshot.ts'
import { clientPod } from '../web-client.ts'
import { PROBE_PORT, probesInFiveHooks } from './packet-hooks.ts'
import { webChain } from './service-chains.ts'

const has = (hook: Hook) => (answer: string) => answer.split(', ').includes(hook)
const lacks = (hook: Hook) => (answer: string) => !has(hook)(answer)
const named = (hooks: readonly Hook[]) => HOOKS.filter((hook) => hooks.includes(hook)).join(', ')

/** The hooks of a packet that a Pod sends to another node. */
export const hooksOfForwarded: Question = (context): Truth => {
  const { snapshot } = context
  const { address, node } = clientPod(context, '01-iptables')
  const other = snapshot.nodes.find(({ name }) => name !== node)?.name ?? node
  const target = { address: nodeAddressOf(snapshot, other), port: PROBE_PORT }
  return {
    accepts: [named(traceOf(snapshot.node(node), { pod: address }, target).hooks)],
    inspect: onNode(node, LOOK_AT_PROBES),
    wrong: [
      {
        when: has('OUTPUT'),
        because:
          'OUTPUT is for packets of a process in the network namespace of the node. The Pod has one of its own: for the node its packet comes from outside.',
      },
      {
        when: has('INPUT'),
        because:
          'INPUT is for packets to a process of this node. The destination of this one is another node.',
      },
      {
        when: lacks('PREROUTING'),
        because: 'Every packet that enters passes PREROUTING, before the routing decision.',
      },
      {
        when: lacks('POSTROUTING'),
        because:
          'Every packet that leaves passes POSTROUTING, whether the node sent or forwarded it.',
      },
    ],
    because:
      'It enters (PREROUTING), is routed to another machine (FORWARD) and leaves (POSTROUTING). A Pod is not a process of the node for Netfilter.',
  }
}

/** The hook that counts every packet that leaves a node. */
export const hookOfLeaving: Question = (context): Truth => {
  const { node } = probesInFiveHooks(context)
  const here = { address: nodeAddressOf(context.snapshot, node.name), port: PROBE_PORT }
  const other = context.nodes.find(({ name }) => name !== node.name)?.name ?? node.name
  const there = { address: nodeAddressOf(context.snapshot, other), port: PROBE_PORT }
  const { address } = clientPod(context, '01-iptables')
  const leaving = [traceOf(node, 'node', there), traceOf(node, { pod: address }, there)]
  const staying = traceOf(node, { outside: there.address }, here)
  const common = HOOKS.filter(
    (hook) => leaving.every(({ hooks }) => hooks.includes(hook)) && !staying.hooks.includes(hook),
  )
  return {
    accepts: [named(common)],
    inspect: onNode(node.name, LOOK_AT_PROBES),
    wrong: [
      {
        when: 'OUTPUT',
        because: 'The packet of the Pod left the node, too, and OUTPUT did not count it.',
      },
      {
        when: 'FORWARD',
        because: 'It counted the packet of the Pod only. The node sent one as well.',
      },
      {
        when: 'PREROUTING',
        because: 'It counted what entered, also the packet that stayed on the node.',
      },
      { when: 'INPUT', because: 'That is where packets end that do not leave.' },
    ],
    because: 'It is the last hook of both paths, so it is where a source address is replaced.',
  }
}

/** How many probes the other nodes have. */
export const probesElsewhere: Question = (context): Truth => {
  const { node } = probesInFiveHooks(context)
  const other = context.nodes.find(({ name }) => name !== node.name)
  const rules = other ? [...(stateOf(other).iptables.get('mangle')?.values() ?? [])] : []
  const count = rules.flatMap(({ rules: own }) => own).filter(({ spec }) => / probe$/.test(spec))
  return {
    accepts: [String(count.length)],
    inspect: onNode(other?.name ?? '', 'iptables -t mangle -S'),
    wrong: [
      {
        when: '5',
        because:
          'Nothing copies rules from one node to another: you added them to one network namespace.',
      },
    ],
    because: 'Hooks, tables and counters belong to one network namespace.',
  }
}

/** The hooks of an IPv6 packet of a node to itself. */
export const hooksOfLoopback: Question = (context): Truth => {
  const { node } = probesInFiveHooks(context)
  return {
    accepts: [named(['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'])],
    inspect: onNode(node.name, 'ip6tables -t mangle -nvL'),
    wrong: [
      {
        when: 'none',
        because:
          'The probes of ip6tables count IPv6, and the packet is one, even if no process listens.',
      },
      {
        when: has('FORWARD'),
        because: 'FORWARD is for packets that only pass through. This one begins and ends here.',
      },
      {
        when: lacks('INPUT'),
        because:
          'It is also received by this node: what leaves by the interface lo enters by it again.',
      },
      { when: lacks('OUTPUT'), because: 'A process of the node sent it.' },
    ],
    because:
      'From the node to itself: sent (OUTPUT, POSTROUTING) and received (PREROUTING, INPUT).',
  }
}

/** How many chains of endpoints web's chain jumps to. */
export const endpointChains: Question = ({ nodes, snapshot }): Truth => {
  const chain = webChain(snapshot)
  const node = nodes.at(-1)
  const rules = node ? (stateOf(node).iptables.get('nat')?.get(chain)?.rules ?? []) : []
  const jumps = rules.filter(({ spec }) => spec.includes('-j KUBE-SEP-'))
  const all = rules.length
  return {
    accepts: [String(jumps.length)],
    inspect: onNode(node?.name ?? '', `iptables -t nat -S ${chain}`),
    wrong: [
      {
        when: '1',
        because: 'One chain could only lead to one Pod: each KUBE-SEP- chain ends in one DNAT.',
      },
      {
        when: (answer) => Number(answer) === all && all !== jumps.length,
        because:
          'That counts every rule of the chain. One of them only marks packets and jumps to no Pod.',
      },
    ],
    because: 'One for each ready Pod.',
  }
}

/** The interface that has the ClusterIP. */
export const interfaceOfClusterIP: Question = ({ nodes, snapshot }): Truth => {
  const { address } = webService(snapshot)
  const node = nodes.at(-1)
  const link = node
    ? stateOf(node).links.find(({ addresses }) => addresses.some((one) => one.address === address))
    : undefined
  return {
    accepts: [link?.name ?? 'no interface'],
    inspect: onNode(node?.name ?? '', 'ip -brief address'),
    wrong: [
      {
        when: 'eth0',
        because:
          'eth0 has the address of the node. A Service has one address for all nodes, so none of them can own it.',
      },
      {
        when: 'cni0',
        because:
          'cni0 has an address of the Pod network, 10.244.0.0/16. ClusterIPs are from another range.',
      },
      {
        when: 'lo',
        because:
          'On lo it would be local to each node. In IPVS mode an interface like that exists; here none does.',
      },
    ],
    because: 'A ClusterIP is a pattern in rules, and no machine owns it.',
  }
}

const SERVICES = ['three-ports', 'mirror', 'nobody']

/** How many entries of KUBE-SERVICES the three Services of the manifest have. */
export const entriesOfServices: Question = (context): Truth => {
  const { nodes, snapshot } = context
  const addresses = objectsOf(snapshot)
    .services.filter(({ namespace, name }) => namespace === 'default' && SERVICES.includes(name))
    .flatMap(({ clusterIPs }) => clusterIPs)
  const node = nodes.at(-1)
  const rules = node ? (stateOf(node).iptables.get('nat')?.get('KUBE-SERVICES')?.rules ?? []) : []
  const entries = rules.filter(({ spec }) =>
    addresses.some((address) => spec.includes(`-d ${address}/32 `)),
  )
  expectThat(addresses.length >= SERVICES.length, {
    inspect: 'kubectl get services',
    expected: `the Services ${SERVICES.join(', ')}`,
    actual: `${addresses.length} of them`,
    next: 'kubectl apply -f labs/01-iptables/manifests/three-services.yaml',
  })
  return {
    accepts: [String(entries.length)],
    inspect: onNode(node?.name ?? '', 'iptables -t nat -S KUBE-SERVICES'),
    wrong: [
      {
        when: '3',
        because: 'An entry belongs to a port, not to a Service: one of them has three ports.',
      },
      {
        when: '5',
        because:
          'The Service nobody has a port, too, but no Pod: there is nothing that its packets could be translated to.',
      },
      {
        when: (answer) => Number(answer) > 10,
        because:
          'Endpoints have chains of their own. The list that every new connection walks has one entry for each port.',
      },
    ],
    because:
      'Three ports of three-ports and one of mirror; nobody has no endpoint and no entry in nat.',
  }
}

/** Whom the Pod mirror logs as the client of its own request. */
export const clientOfHairpin: Question = (context): Truth => {
  const { snapshot } = context
  const { address, port } = clusterService(snapshot, 'mirror', {
    expected: 'a Service mirror with a ClusterIP',
    next: 'kubectl apply -f labs/01-iptables/manifests/three-services.yaml',
  })
  const pod = snapshot.find('Pod', 'default', 'mirror')
  const node = snapshot.node(pod?.spec?.nodeName ?? '')
  const { outcomes } = traceOf(node, { pod: pod?.status?.podIP ?? '' }, { address, port })
  const isMasqueraded = outcomes.some(({ masquerade }) => masquerade)
  return {
    accepts: [isMasqueraded ? 'the node' : 'the Pod itself'],
    inspect: 'kubectl logs mirror --tail=1',
    wrong: [
      {
        when: 'the Pod itself',
        because:
          "Then the packet would arrive with one of the receiver's own addresses as its source. The Pod's kernel drops such a packet as a martian.",
      },
      {
        when: 'the ClusterIP',
        because:
          'That was the destination, and DNAT has replaced it. It never becomes a source in this mode.',
      },
    ],
    because:
      "Its endpoint chain marks packets that come from the endpoint itself, and KUBE-POSTROUTING replaces the source by the node's address.",
  }
}

/** What a client of a Service without endpoints gets. */
export const resultWithoutEndpoints: Question = ({ nodes, snapshot }): Truth => {
  const { address } = clusterService(snapshot, 'nobody', {
    expected: 'a Service nobody with a ClusterIP',
    next: 'kubectl apply -f labs/01-iptables/manifests/three-services.yaml',
  })
  const rejects = nodes.every((node) =>
    stateOf(node)
      .iptables.get('filter')
      ?.get('KUBE-SERVICES')
      ?.rules.some(({ spec }) => spec.includes(`-d ${address}/32 `) && spec.includes('-j REJECT')),
  )
  return {
    accepts: [rejects ? 'refused at once' : 'a timeout'],
    inspect: onNode(nodes.at(-1)?.name ?? '', 'iptables -t filter -S KUBE-SERVICES'),
    wrong: [
      {
        when: 'a timeout',
        because:
          'That would happen without kube-proxy: the packet would leave for an address that no machine has. kube-proxy writes a rule against that.',
      },
      { when: 'an answer', because: 'There is no Pod that could give one.' },
    ],
    because:
      'A rule of the table filter rejects the packet, and the message reaches the client within a millisecond.',
  }
}
