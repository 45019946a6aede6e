// What the old mode leaves: which connections need it, and that it is gone.

import { DUMMY_LINK } from '../../dataplane/kube-proxy/mode-ownership.ts'
import {
  type CheckContext,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { expectFound, expectThat, onNode, Trouble } from '../../grading/failure.ts'
import { type NodeView, nodeAddressOf, objectsOf, stateOf } from '../../grading/snapshot.ts'
import { programText } from '../../host/program-text.ts'
import { changeFromIpvs, changeToNftables, modeChange } from './migration.ts'

const needsIpvs = programText('labs/09-leaving-ipvs/needs-ipvs.sh')

/** True if kube-ipvs0 is there with an address. */
export const holdsServiceAddresses = (node: NodeView) =>
  stateOf(node).links.some(({ name, addresses }) => name === DUMMY_LINK && addresses.length > 0)

/**
 * Question: the source address of a node's own request to the ClusterIP of orders while kube-ipvs0
 * has it.
 */
export async function sourceOfNode(context: CheckContext): Promise<Truth> {
  const { to } = changeFromIpvs(context)
  const { nodes, live, snapshot } = context
  expectMode(context, to, {})
  const node = expectFound(nodes.find(holdsServiceAddresses), {
    inspect: 'ip -brief address show kube-ipvs0',
    expected: 'kube-ipvs0 with its addresses, as IPVS mode left it',
    actual: 'it is gone: the question is about the time before',
  })
  const address = objectsOf(snapshot).services.find(
    ({ namespace, name }) => namespace === WEB_NAMESPACE && name === 'orders',
  )?.clusterIPs[0]
  const command = `ip route get ${address}`
  const source = live
    ? / src (\S+)/.exec((await live.readOnNode(node.name, command)).stdout)?.[1]
    : address
  return {
    accepts: [source ?? ''],
    inspect: onNode(node.name, command),
    wrong: [
      {
        when: nodeAddressOf(snapshot, node.name),
        because:
          'That is the source for packets that leave the node. For an address of its own the kernel takes this address itself, and kube-ipvs0 has every ClusterIP.',
      },
      {
        when: '127.0.0.1',
        because:
          'The route is to a local address, but its source is in the table "local": ip route get shows it.',
      },
    ],
    because:
      'kube-ipvs0 makes the ClusterIP a local address, and the kernel takes the address itself as the source. Replies to such a connection need the address.',
  }
}

/** No connection on any node needs kube-ipvs0 or a virtual server, and no new one will. */
export const nothingNeedsIpvs = onceSeen('ended', async (context: LiveContext) => {
  const { to } = changeFromIpvs(context)
  const { nodes, live } = context
  expectMode(context, to, {})
  for (const { name } of nodes) {
    const { stdout } = await live.readOnNode(name, needsIpvs)
    const [, ipvs, sockets, routes] = /^ipvs=(\d+) sockets=(\d+) routes=(\d+)$/m.exec(stdout) ?? []
    if (routes === undefined) throw new Trouble(`the connections of ${name} could not be counted`)
    const inspect = `make exec NODE=${name} CMD="$(cat labs/09-leaving-ipvs/needs-ipvs.sh)"`
    expectThat(routes === '0', {
      node: name,
      inspect,
      expected: "the node's own address as the source of connections to ClusterIPs",
      actual: `${routes} ClusterIPs are still taken as the source`,
      next: `make exec NODE=${name} CMD="$(cat labs/09-leaving-ipvs/own-source.sh)"`,
    })
    expectThat(ipvs === '0' && sockets === '0', {
      node: name,
      inspect,
      expected: 'no connection that IPVS forwards, and no socket with a ClusterIP as its source',
      actual: `${ipvs} in the table of IPVS, ${sockets} sockets`,
      next: `make exec NODE=${name} CMD="$(cat labs/09-leaving-ipvs/await-no-need.sh)"`,
    })
  }
  return { nodes: nodes.length }
})

const CONNECTIONS = ['opened-before-by-a-pod', 'opened-since-by-a-pod', 'opened-since-by-the-node']

/**
 * Predict: which connections stop if kube-ipvs0 and the virtual servers are removed while they are
 * open.
 */
export function connectionsThatNeedIpvs(context: CheckContext): Truth {
  changeFromIpvs(context)
  return {
    accepts: [CONNECTIONS.filter((name) => name !== 'opened-since-by-a-pod').join(', ')],
    inspect: 'make exec CMD="$(cat labs/09-leaving-ipvs/needs-ipvs.sh)"',
    wrong: [
      {
        when: (answer) => answer.includes('opened-since-by-a-pod'),
        because:
          'A Pod has its own address as the source, and the new rules translate the destination: nothing of it is on kube-ipvs0.',
      },
      {
        when: (answer) => !answer.includes('opened-since-by-the-node'),
        because:
          'Its destination is translated by the new rules, but its source is the ClusterIP, as you have just seen: replies come to an address that is gone.',
      },
      {
        when: (answer) => !answer.includes('opened-before-by-a-pod'),
        because:
          'IPVS forwards it, and forgets it with its virtual server. The new rules choose an endpoint for its next packet, and another one than before resets the connection.',
      },
    ],
    because:
      'IPVS forwards the first ones; without it the new rules choose an endpoint for each, which is the old one by chance only. The last have an address of kube-ipvs0 as their source, and all of them stop.',
  }
}

const HANDOVER = 'handover'
const hasHandover = (node: NodeView) =>
  stateOf(node).foreignNftables?.some(({ name }) => name === HANDOVER) ?? false

/** Every node has the table that drops what is not translated, while it still runs the old mode. */
export const handoverWaits = onceSeen(HANDOVER, async (context: CheckContext) => {
  const { from } = changeToNftables(context)
  const { nodes } = context
  const node = nodes.find((one) => !hasHandover(one))
  expectThat(!node, {
    ...(node && { node: node.name }),
    inspect: onNode(node?.name ?? '', `nft list table ip ${HANDOVER}`),
    expected: `the table ip ${HANDOVER} on every node`,
    actual: `none on ${node?.name}`,
  })
  expectMode(context, from, {})
  return { nodes: nodes.length }
})

/** Predict: what a new connection to a node port gets while the node has no rules. */
export function withoutRules(context: CheckContext): Truth {
  changeToNftables(context)
  return {
    accepts: ['refused'],
    inspect: "make exec CMD='curl -sS --max-time 2 localhost:30999'",
    wrong: [
      {
        when: 'silence',
        because:
          'That is what a ClusterIP gets, which is no address of any machine. A node port is a port of the node itself, without a listener.',
      },
      {
        when: 'an-answer',
        because:
          'Without a rule the packet is not translated, and no process listens on a node port.',
      },
    ],
    because:
      'The kernel finds no listener and refuses. A dropped packet is better: TCP sends it again after a second, when the rules are there.',
  }
}

/** Every node has exactly what the new mode programs, and no chain for the moment between. */
export function onlyNewModeIsLeft(context: CheckContext): void {
  const { nodes } = context
  const { to } = modeChange(context)
  expectMode(context, to, {})
  expectNodes(nodes).nothingOfOtherModes(to, {
    inspect: 'ipvsadm -Ln; ip -brief address show kube-ipvs0; iptables-save | grep -c KUBE-',
  })
  const node = nodes.find(hasHandover)
  expectThat(!node, {
    ...(node && { node: node.name }),
    inspect: onNode(node?.name ?? '', 'nft list tables'),
    expected: `no table ${HANDOVER}: it would drop what should be refused`,
    actual: 'it is still there',
    next: onNode(node?.name ?? '', `nft delete table ip ${HANDOVER}`),
  })
  expectNodes(nodes)
    .everything('iptables-save')
    .equalPrediction(to, 'exactly what the new mode programs for these Services')
}
