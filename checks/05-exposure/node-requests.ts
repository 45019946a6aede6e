// Lab 5: a filter of the learner must let the replies to the node's own requests pass.

import type { Rule } from '../../dataplane/iptables-save.ts'
import type { CheckContext, LiveContext } from '../../grading/check-context.ts'
import { clusterService, webService } from '../../grading/expect-object.ts'
import { expectThat, onNode } from '../../grading/failure.ts'
import type { NodeTables } from '../../grading/packet-trace.ts'
import {
  fromNode,
  type InsideRequester,
  sendRequests,
  typedRequest,
} from '../../grading/requests.ts'
import { stateOf } from '../../grading/snapshot.ts'
import { expectPacket } from './packet-path.ts'

/**
 * A node's request to a ClusterIP has the ClusterIP as its source, because the address is local.
 * conntrack translates the reply's destination back in PREROUTING, so in INPUT it is addressed to
 * the ClusterIP, at a port of no Service (kubernetes#72236).
 */
const WHY =
  "The reply to the node's own request is addressed to the ClusterIP, at the port of the client, which is in no set: the rule takes it for a packet to a forbidden port."
const HINT =
  'Match new connections only: -m conntrack --ctstate NEW. Replies belong to a connection that conntrack already tracks.'

/** A port from net.ipv4.ip_local_port_range, which a program of the node may send from. */
export const CLIENT_PORT = 40_000
const SECONDS = 2

/** A rule that no packet of an established connection matches, as iptables-save prints it. */
const ONLY_FIRST_PACKET =
  / (?:--ctstate|--state) NEW | ! (?:--ctstate|--state) \S*ESTABLISHED|--tcp-flags \S+ SYN /

/** By the rules of every node, replies to its own requests are delivered. */
export function repliesPassRules({ snapshot, nodes }: CheckContext): void {
  const { name, address, backends } = webService(snapshot)
  const reply = { sender: { outside: backends[0]?.address ?? '' } }
  const to = { address, port: CLIENT_PORT }
  for (const node of nodes)
    expectPacket(withRulesForReplies(node), reply, to, {
      inspect: 'iptables -nvL INPUT',
      expected: `that the reply to a request of ${node.name} itself to ${name} is delivered to ${address}:${CLIENT_PORT}`,
      why: WHY,
      hint: HINT,
    }).isNotStopped()
}

/** The node with the rules of INPUT that a reply can match. */
export const withRulesForReplies = (node: NodeTables): NodeTables =>
  withInput(node, (rules) => rules.filter(({ spec }) => !ONLY_FIRST_PACKET.test(`${spec} `)))

const OWN_OR_NEWER = /--comment "?lab-5(?!\d)| -j KUBE-IPVS-FILTER$/

/**
 * The node without rules of the learner in INPUT, and without the jump that kube-proxy has since
 * 1.26.
 */
export const withoutOwnRules = (node: NodeTables): NodeTables =>
  withInput(node, (rules) => rules.filter(({ spec }) => !OWN_OR_NEWER.test(spec)))

/** The node without kube-proxy's own filter, so that only the learner's rule is judged. */
export const withoutAccessFilter = (node: NodeTables): NodeTables =>
  withInput(node, (rules) => rules.filter(({ spec }) => !/ -j KUBE-IPVS-FILTER$/.test(` ${spec}`)))

/** The node with one more rule, as iptables-save prints it, at the top of INPUT. */
export const withInputRule = (node: NodeTables, spec: string): NodeTables =>
  withInput(node, (rules) => [{ spec }, ...rules])

function withInput(node: NodeTables, edit: (rules: Rule[]) => Rule[]): NodeTables {
  const { name } = node
  const state = stateOf(node)
  const filter = state.iptables.get('filter')
  const input = filter?.get('INPUT')
  if (!filter || !input) return { name, state }
  const table = new Map(filter).set('INPUT', { ...input, rules: edit(input.rules) })
  return { name, state: { ...state, iptables: new Map(state.iptables).set('filter', table) } }
}

/**
 * Programs of every node reach web and the API server through their ClusterIPs, with real requests.
 */
export async function nodesAreServed({ live, nodes, snapshot }: LiveContext): Promise<void> {
  const web = webService(snapshot)
  const api = clusterService(snapshot, 'kubernetes', {
    expected: 'the Service kubernetes, which leads to the API server',
  })
  const targets = [
    { name: web.name, address: web.address, port: web.port, seconds: SECONDS },
    { name: 'the API server', address: api.address, port: api.port, seconds: SECONDS },
  ]
  const sent = nodes.map(async ({ name }) => {
    const from: InsideRequester = fromNode(name)
    // The API server ends a connection without TLS: it is enough that there was one.
    for (const { request, replies } of await sendRequests(live, from, targets))
      expectThat((replies[0]?.port ?? 0) > 0, {
        node: name,
        inspect: typedRequest(from, request),
        expected: `a connection of ${name} itself to ${request.name} at ${request.address}:${request.port}`,
        actual: replies[0]?.error || 'no connection',
        why: WHY,
        hint: HINT,
        next: onNode(name, 'iptables -nvL INPUT'),
      })
  })
  await Promise.all(sent)
}
