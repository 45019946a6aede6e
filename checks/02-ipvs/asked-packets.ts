// Lab 2: what is predicted and asked about the packets of a Pod and of a node.

import { HOOKS } from '../../dataplane/trace/step.ts'
import type { CheckContext, Question, Truth } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { webService } from '../../grading/expect-object.ts'
import { onNode } from '../../grading/failure.ts'
import { type Sender, traceOf } from '../../grading/packet-trace.ts'
import { type NodeView, nodeAddressOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { clientPod } from '../web-client.ts'
import { worker } from './worker.ts'

const DEVICE = 'kube-ipvs0'

/** Which target of KUBE-SERVICES decides about a packet of a Pod to a ClusterIP. */
export const decidingTarget: Question = (context): Truth => {
  const node = worker(context)
  const podAddress = podAddressOn(context.snapshot, node)
  const { steps } = traceOf(node, { pod: podAddress }, webService(context.snapshot))
  const found = steps.findLast(
    ({ hook, table, chain }) =>
      hook === 'PREROUTING' && table === 'nat' && chain === 'KUBE-SERVICES',
  )
  return {
    accepts: [found?.verdict === 'JUMP' ? 'KUBE-NODE-PORT' : (found?.verdict ?? '')],
    inspect: onNode(node.name, 'iptables -t nat -S KUBE-SERVICES'),
    wrong: [
      {
        when: 'KUBE-MARK-MASQ',
        because:
          'Read the source in that rule: "! -s" and the Pod network. The packet comes from a Pod, so the rule does not match.',
      },
      {
        when: 'KUBE-NODE-PORT',
        because:
          'It is jumped to, because the destination is local since kube-ipvs0 has it. But that chain only knows node ports and returns.',
      },
      {
        when: 'DNAT',
        because:
          'That is iptables mode. Here no rule rewrites the destination: IPVS will, at another hook.',
      },
    ],
    because:
      'ACCEPT ends the table: the packet keeps its destination, and no rule of nat sees it again in this hook.',
  }
}

/** The address of a Pod on a node, else the first address of its Pod network. */
function podAddressOn(snapshot: Snapshot, { name }: NodeView): string {
  const pod = snapshot.items.find(
    ({ kind, spec, status }) =>
      kind === 'Pod' && spec?.nodeName === name && status?.podIP && !spec.hostNetwork,
  )
  return pod?.status?.podIP ?? '10.244.0.99'
}

/** The hooks that the first packet of a connection to web passes on the client's node. */
function hooksFrom(context: CheckContext, sender: (pod: string) => Sender) {
  const { address, node } = clientPod(context, '02-ipvs')
  const { hooks } = traceOf(
    context.snapshot.node(node),
    sender(address),
    webService(context.snapshot),
  )
  return {
    accepts: [HOOKS.filter((hook) => hooks.includes(hook)).join(', ')],
    inspect: onNode(node, 'iptables -t mangle -nvL | grep -e Chain -e lab-2-hooks'),
  }
}

const has = (hook: string) => (answer: string) => answer.split(', ').includes(hook)

/** The hooks of a Pod's request. */
export const hooksOfPod: Question = (context): Truth => ({
  ...hooksFrom(context, (pod) => ({ pod })),
  wrong: [
    {
      when: has('FORWARD'),
      because:
        'FORWARD is for packets that only pass through. This one has a destination that the node itself owns, on kube-ipvs0: the routing decision says "local".',
    },
    {
      when: (answer) => !has('OUTPUT')(answer),
      because:
        'IPVS takes the packet at LOCAL_IN and sends it on itself, as the node would send a packet of its own: through LOCAL_OUT.',
    },
    {
      when: (answer) => !has('INPUT')(answer),
      because:
        'kube-ipvs0 makes the destination local: the packet is delivered to the node, and INPUT is on that path.',
    },
    {
      when: (answer) => !has('PREROUTING')(answer),
      because:
        'The packet enters the node by the interface of the Pod, and whatever enters passes PREROUTING first.',
    },
  ],
  because:
    'In by PREROUTING, delivered to the node (INPUT), taken by IPVS at LOCAL_IN and sent on by it through OUTPUT and POSTROUTING. It never passes FORWARD, where rules about Pod traffic often are.',
})

/** The hooks of a request of the node itself. */
export const hooksOfNode: Question = (context): Truth => ({
  ...hooksFrom(context, () => 'node'),
  wrong: [
    {
      when: has('INPUT'),
      because:
        'The destination is local, so INPUT is a good guess. But IPVS takes requests at two hooks: a packet of the node at LOCAL_OUT, before it could be delivered.',
    },
    {
      when: has('PREROUTING'),
      because:
        'PREROUTING is for packets that enter by an interface. This one is made by a process of the node.',
    },
    {
      when: has('FORWARD'),
      because: 'FORWARD is for packets that neither begin nor end on this node.',
    },
    {
      when: (answer) => !has('POSTROUTING')(answer),
      because:
        'Every packet that leaves the node passes POSTROUTING. One of the two Pods is on another node.',
    },
  ],
  because:
    'IPVS takes it in LOCAL_OUT, rewrites the destination, and the packet passes OUTPUT once more: its counter grows by two.',
})

/** The client that the Pods log for a Pod's request. */
export const clientOfPod: Question = (context): Truth => {
  const { address, node } = clientPod(context, '02-ipvs')
  const { snapshot, nodes } = context
  const service = webService(snapshot)
  const ofNode = (answer: string) =>
    nodes.some(
      (one) =>
        nodeAddressOf(snapshot, one.name) === answer ||
        stateOf(one).links.some(
          (link) => link.name !== DEVICE && link.addresses.some((own) => own.address === answer),
        ),
    )
  return {
    accepts: [address],
    inspect: 'kubectl logs -l app=web --prefix --tail=20',
    wrong: [
      {
        when: ofNode,
        because:
          'That is an address of a node. It would be right if the mark 0x4000 had been set: look at the first rule of KUBE-SERVICES that matches KUBE-CLUSTER-IP.',
      },
      {
        when: service.address,
        because:
          'That is the ClusterIP, where the request went: IPVS has replaced it, and the Pod never sees it.',
      },
      {
        when: (answer) => service.backends.some((backend) => backend.address === answer),
        because: 'That is the Pod that answered. Its log line begins with the client.',
      },
    ],
    because: `The Pod's own address, ${address} on ${node}: IPVS replaced the destination and kept the source.`,
  }
}

/** The mark that makes the last chain masquerade. */
export const markOfNode: Question = (context): Truth => {
  const { masqueradeBit } = configOf(context.snapshot)
  const mark = `0x${(2 ** masqueradeBit).toString(16)}`
  return {
    accepts: [mark, String(2 ** masqueradeBit)],
    inspect: onNode(worker(context).name, 'iptables -t nat -S KUBE-MARK-MASQ'),
    wrong: [
      {
        when: '0x8000',
        because:
          'That bit means "drop" and was set by KUBE-MARK-DROP, which kube-proxy had up to 1.27.',
      },
      { when: '0x0', because: 'KUBE-POSTROUTING clears the mark later. Which chain sets it?' },
      {
        when: String(masqueradeBit),
        because:
          'That is the number of the bit in the configuration of kube-proxy; the rule has its value.',
      },
    ],
    because: `${mark} means: replace the source when this packet leaves. A Pod's packet does not get it, because the rule matches only other sources.`,
  }
}

const HAIRPINS = 'KUBE-LOOP-BACK'

/** How many endpoints of web are in the worker's KUBE-LOOP-BACK. */
export const hairpinsOnWorker: Question = (context): Truth => {
  const node = worker(context)
  const { backends } = webService(context.snapshot)
  const members = [...(stateOf(node).ipsets.get(HAIRPINS)?.members ?? [])].map(String)
  const own = backends.filter(({ address }) =>
    members.some((member) => member.startsWith(`${address},`)),
  )
  return {
    accepts: [String(own.length)],
    inspect: onNode(node.name, `ipset list ${HAIRPINS}`),
    wrong: [
      {
        when: (answer) => Number(answer) === backends.length && own.length < backends.length,
        because:
          'That counts the endpoints on all nodes. A packet comes back to its own Pod only on the node of this Pod.',
      },
      {
        when: '0',
        because:
          'Compare its members, address by address, with `kubectl get pods -l app=web -o wide`.',
      },
    ],
    because: "Those on this node: a Pod's packet to itself never leaves its node.",
  }
}

/** How many different clients the Pods log for requests of the worker. */
export const clientsOfNode: Question = (context): Truth => {
  const node = worker(context)
  const { backends } = webService(context.snapshot)
  const places = new Set(backends.map((backend) => backend.node === node.name))
  return {
    accepts: [String(places.size)],
    inspect: onNode(node.name, backends.map(({ address }) => `ip route get ${address}`).join('; ')),
    wrong: [
      {
        when: '1',
        because:
          'There is one client, but it has several addresses: masquerading takes that of the interface by which the packet leaves. By which one does it reach the Pod next to it?',
      },
      {
        when: '4',
        because:
          'Each connection gets another source port, but the address is that of an interface.',
      },
    ],
    because:
      'The Pod on the same node sees the address of the node in the Pod network, the other one its address on eth0.',
  }
}

/** How many packets of ten requests over one connection the marking rule counts. */
export const packetsOnRule: Question = (context): Truth => ({
  accepts: ['1'],
  inspect: onNode(worker(context).name, 'iptables -t nat -nvL KUBE-SERVICES'),
  wrong: [
    {
      when: '10',
      because:
        'Ten requests, but one connection: the table nat is evaluated for the first packet of a connection only.',
    },
    {
      when: (answer) => Number(answer) > 1,
      because:
        'All packets after the first are translated by conntrack, without a look at the rules.',
    },
    {
      when: '0',
      because:
        'The first packet of the connection is compared with the rules, as any first packet.',
    },
  ],
  because:
    'conntrack remembers what was decided about the first packet and applies it to all others, in both directions.',
})
