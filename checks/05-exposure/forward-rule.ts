import * as z from 'zod'
import { HOOKS } from '../../dataplane/trace/step.ts'
import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectFound, expectOnNode, onNode, Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { packetsOn } from '../../grading/packet-counters.ts'
import type { Truth } from '../../grading/question.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { chainsLeadToPods } from '../01-iptables/service-chains.ts'
import { clientInIpvsMode, clientNode, FROM_IPTABLES_MODE, WITH_OLD_RULES } from './client-node.ts'
import { answered } from './node-agent.ts'
import { expectPacket, filterHooks, type Stop } from './packet-path.ts'

/**
 * kube-proxy's own syncs set the counters of its chains to zero; the measurement is repeated up to
 * this often.
 */
const ATTEMPTS = 3

const STOPPED = 'a request that gets no answer, and a packet more on the rule'

/**
 * The requests get no answer and the rule counts them, or `answers` and it counts none. Throws
 * Trouble when the rule is gone or rewritten.
 */
export async function expectCounted(
  live: LiveCluster,
  { node, rule, inspect }: { node: string; rule: Stop; inspect: string },
  send: () => Promise<number>,
  { answers = 0, expected = STOPPED }: { answers?: number; expected?: string } = {},
): Promise<void> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = await packetsOf(live, node, rule)
    const seen = await send()
    const packets = (await packetsOf(live, node, rule)) - before
    if (packets < 0) continue
    const answered = seen === 0 ? 'no answer' : seen === 1 ? 'an answer' : `${seen} answers`
    return expectOnNode(node, inspect, seen === answers && packets > 0 === (answers === 0), {
      expected,
      actual: `${answered} and ${packets} packets more on the rule`,
    })
  }
  throw new Trouble(`the counter of "${rule.rule}" on ${node} could not be read`)
}

async function packetsOf(
  live: LiveCluster,
  node: string,
  { table, chain, rule }: Stop,
): Promise<number> {
  const packets = await packetsOn(
    live,
    node,
    [table, chain],
    (spec) => `-A ${chain} ${spec}` === rule,
  )
  if (packets === undefined) throw new Trouble(`the rule "${rule}" is no longer on ${node}`)
  return packets
}

/** The learner's rule that stopped the client in iptables mode. */
const ruleNote = z.object({
  node: z.string(),
  hook: z.enum(HOOKS),
  table: z.string(),
  chain: z.string(),
  rule: z.string(),
})
type RuleNote = z.infer<typeof ruleNote>

const NOTE = 'stopped-in-iptables-mode'
/** The port of web's Pods: the destination port after DNAT. */
const POD_PORT = 80
const podAt = (address: string) => ({ address, port: POD_PORT })
const LIST_FORWARD = 'iptables -nvL FORWARD'
const REQUESTS = 3

/** iptables mode: a rule in FORWARD of the client's node stops its requests to web. */
export const forwardRuleStops = onceSeen(NOTE, async (context) => {
  const { live } = context
  expectMode(context, 'iptables', FROM_IPTABLES_MODE)
  const { client, node, service } = clientNode(context)
  const { name } = node
  chainsLeadToPods({ ...context, nodes: [node] })
  const by = expectPacket(node, client, service, {
    inspect: LIST_FORWARD,
    expected: `a rule in FORWARD on ${name} that stops the packets of ${client.address} to port ${POD_PORT} of the Pods`,
  }).isStopped(({ hook }) => hook === 'FORWARD')
  const place = { node: name, rule: by, inspect: LIST_FORWARD }
  if (live) await expectCounted(live, place, () => answered(live, client, service))
  return { ...by, node: name }
})

/**
 * IPVS mode: the same rule exists, requests to web are answered, and the rule does not match them.
 */
export const forwardRuleNotTraversed = onceSeen('not-asked-in-ipvs-mode', async (context) => {
  const { live } = context
  const { client, node, service } = clientInIpvsMode(context)
  const rule = expectForwardRule(context, node)
  expectPacket(node, client, service, {
    inspect: 'iptables -nvL; ipvsadm -Ln',
    expected: `a packet to ${service.name} that IPVS forwards`,
    hint: 'Keep the rule in FORWARD only, and remove the others that you added.',
  }).isSentOn()
  for (const { address } of service.backends)
    expectPacket(node, client, podAt(address), {
      inspect: LIST_FORWARD,
      expected: `that the rule still stops packets from the client directly to the Pod ${address}`,
    }).isStopped((by) => by.rule === rule.rule)
  if (!live) return rule
  const place = { node: rule.node, rule, inspect: LIST_FORWARD }
  await expectCounted(live, place, () => answered(live, client, service, REQUESTS), {
    answers: REQUESTS,
    expected: `${REQUESTS} answers through ${service.name}, and not one packet more on the rule`,
  })
  const backend = podAt(service.backends[0]?.address ?? '')
  await expectCounted(live, place, () => answered(live, client, backend), {
    expected: `no direct answer from the Pod ${backend.address}, and a packet more on the rule`,
  })
  return rule
})

/** The rule of step forward-rule is still on that node. Returns it. */
function expectForwardRule({ notes }: CheckContext, node: NodeView): RuleNote {
  const { name } = node
  const rule = notes.read(NOTE, ruleNote)
  const rules =
    rule?.node === name ? stateOf(node).iptables.get(rule.table)?.get(rule.chain)?.rules : undefined
  const isThere = rules?.some(({ spec }) => `-A ${rule?.chain} ${spec}` === rule?.rule)
  return expectFound(isThere ? rule : undefined, {
    node: name,
    inspect: onNode(name, LIST_FORWARD),
    expected: `the rule in FORWARD that stopped the client in iptables mode, still on ${name}`,
    actual: rule ? `it is gone: ${rule.rule}` : 'the grader has not seen it stop anything',
    hint: 'Add it again unchanged. If the client Pod has another address now, run make iptables and repeat step forward-rule.',
  })
}

const KERNEL_TABLES = new Set(['raw', 'mangle', 'nat', 'filter', 'security'])

/**
 * IPVS mode: a rule stops the requests to web, too, and that of iptables mode still exists, unless
 * one in PREROUTING stops both.
 */
export const stoppedInEitherMode = onceSeen('stopped-in-either-mode', async (context) => {
  const { live } = context
  const { client, node, service } = clientInIpvsMode(context)
  const { name } = node
  const by = expectPacket(node, client, service, {
    inspect: 'iptables -nvL INPUT',
    expected: `a rule on ${name} that stops packets from ${client.address} to ${service.address} before IPVS`,
  }).isStopped(({ table }) => KERNEL_TABLES.has(table))
  // One rule in PREROUTING stops both; else the one of iptables mode must still be there, too.
  if (by.hook !== 'PREROUTING') expectForwardRule(context, node)
  for (const { address } of service.backends)
    expectPacket(node, client, podAt(address), {
      inspect: 'iptables -nvL FORWARD',
      expected: `that packets from the client directly to the Pod ${address} are stopped as well`,
      hint: 'The rule in FORWARD stops those: keep it.',
    }).isStopped()
  const inspect = `iptables -t ${by.table} -nvL ${by.chain}`
  if (live)
    await expectCounted(live, { node: name, rule: by, inspect }, () =>
      answered(live, client, service),
    )
  return { ...by, node: name }
})

/** Question: the chain of filter that the client's packet to web traverses before IPVS. */
export function chainBeforeIpvs(context: CheckContext): Truth {
  expectMode(context, 'ipvs', { next: WITH_OLD_RULES })
  const { client, node, service } = clientNode(context)
  return {
    accepts: filterHooks(node, client, service),
    inspect: `make trace FROM=pod/client TO=svc/${service.name}:${service.port} NODE=${node.name}`,
    wrong: [
      {
        when: 'FORWARD',
        because:
          'That was its chain in iptables mode. Now the ClusterIP is an address of the node, so the routing decision leads into the node.',
      },
      {
        when: 'OUTPUT',
        because:
          'What IPVS sends on passes OUTPUT, with a Pod as its destination. The question is about the packet before that.',
      },
    ],
    because:
      'The kernel takes it for a packet to the node itself, with the ClusterIP still as its destination.',
  }
}
