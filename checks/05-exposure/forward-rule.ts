import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { ParseError } from '../../dataplane/parse-error.ts'
import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { expectOnNode, onNode } from '../../grading/difference-report.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { type WebService, webService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'
import { answered } from './node-agent.ts'
import { clientInIpvsMode, expectPacket, type Stop } from './packet-path.ts'

/** kube-proxy's own syncs set the counters of its chains to zero; the measurement is repeated up to this often. */
const ATTEMPTS = 3

/**
 * Does some work and returns the growth of a rule's packet counter. Throws Trouble when the rule is gone, or is rewritten
 * each time.
 */
async function countedDuring<T>(
  live: LiveCluster,
  node: string,
  rule: Stop,
  work: () => Promise<T>,
): Promise<{ packets: number; result: T }> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = await packetsOf(live, node, rule)
    const result = await work()
    const packets = (await packetsOf(live, node, rule)) - before
    if (packets >= 0) return { packets, result }
  }
  throw new Trouble(`the counter of "${rule.rule}" on ${node} could not be read`)
}

/** The expectation for one request that a rule stops. */
export const STOPPED_AND_COUNTED = {
  answers: 0,
  counted: true,
  expected: 'a request that gets no answer, and a packet more on the rule',
}

/**
 * The sent requests get this number of answers, and the rule's counter grows or not as expected. Fails otherwise; throws
 * Trouble as countedDuring does.
 */
export async function expectCounted(
  live: LiveCluster,
  { node, rule, inspect }: { node: string; rule: Stop; inspect: string },
  send: () => Promise<number>,
  { answers, counted, expected }: { answers: number; counted: boolean; expected: string },
): Promise<void> {
  const { packets, result } = await countedDuring(live, node, rule, send)
  expectOnNode(node, inspect, result === answers && packets > 0 === counted, {
    expected,
    actual: `${result === 0 ? 'no answer' : result === 1 ? 'an answer' : `${result} answers`} and ${packets} packets more on the rule`,
  })
}

async function packetsOf(live: LiveCluster, node: string, { table, chain, rule }: Stop): Promise<number> {
  const { stdout } = await live.onNode(node, `iptables-save -c -t ${table}`)
  try {
    const rules = parseIptablesSave(stdout).get(table)?.get(chain)?.rules ?? []
    const found = rules.find(({ spec }) => `-A ${chain} ${spec}` === rule)
    if (found) return found.packets ?? 0
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
  }
  throw new Trouble(`the rule "${rule}" is no longer on ${node}`)
}

/** The learner's rule that stopped the client in iptables mode. */
interface RuleNote extends Stop {
  node: string
}

const STOPPED = 'stopped-in-iptables-mode'
const NOT_ASKED = 'not-asked-in-ipvs-mode'
/** The port of web's Pods: the destination port after DNAT. */
const POD_PORT = 80
export const podAt = (address: string) => ({ address, port: POD_PORT })
const LOOK = 'iptables -nvL FORWARD'
const REQUESTS = 3

const isRuleNote = (value: unknown): value is RuleNote =>
  typeof value === 'object' &&
  value !== null &&
  ['node', 'table', 'chain', 'rule'].every((key) => key in value && typeof value[key as keyof object] === 'string')

/** iptables mode: a rule in FORWARD of the client's node stops its requests to web. */
export const forwardRuleStops = onceSeen(STOPPED, async (context) => {
  const { snapshot, live } = context
  expectMode(context, 'iptables', {
    hint: 'make iptables, then make flush-nat; this lab begins in that mode (make reset-5).',
  })
  const service = webService(snapshot)
  const { address: client, node } = clientPod(context)
  chainsLeadToPods({ ...context, nodes: [snapshot.node(node)] })
  const by = expectPacket(snapshot.node(node), client, service, {
    inspect: LOOK,
    expected: `a rule in FORWARD on ${node} that stops the packets of ${client} to port ${POD_PORT} of the Pods`,
  }).isStopped(({ hook }) => hook === 'FORWARD')
  if (live)
    await expectCounted(live, { node, rule: by, inspect: LOOK }, () => answered(live, service), STOPPED_AND_COUNTED)
  return { ...by, node }
})

/** IPVS mode: the same rule exists, requests to web are answered, and the rule does not match them. */
export const forwardRuleNotTraversed = onceSeen(NOT_ASKED, async (context) => {
  const { live } = context
  const { service, client, view } = clientInIpvsMode(context)
  const rule = expectForwardRule(context, view)
  expectPacket(view, client, service, {
    inspect: 'iptables -nvL; ipvsadm -Ln',
    expected: `a packet to ${service.name} that IPVS forwards`,
    hint: 'Keep the rule in FORWARD only, and remove the others that you added.',
  }).isSentOn()
  for (const { address } of service.backends)
    expectPacket(view, client, podAt(address), {
      inspect: LOOK,
      expected: `that the rule still stops packets from the client directly to the Pod ${address}`,
    }).isStopped((by) => by.rule === rule.rule)
  if (live) await mustAnswerUnseen(live, service, rule)
  return rule
})

/** The rule of step forward-rule is still on that node. Returns it. */
export function expectForwardRule({ notes }: CheckContext, node: NodeView): RuleNote {
  const { name } = node
  const rule = notes.read(STOPPED, isRuleNote)
  const rules = rule?.node === name ? stateOf(node).iptables.get(rule.table)?.get(rule.chain)?.rules : undefined
  const isThere = rules?.some(({ spec }) => `-A ${rule?.chain} ${spec}` === rule?.rule)
  return expectFound(isThere ? rule : undefined, {
    node: name,
    inspect: onNode(name, LOOK),
    expected: `the rule in FORWARD that stopped the client in iptables mode, still on ${name}`,
    actual: rule ? `it is gone: ${rule.rule}` : 'the grader has not seen it stop anything',
    hint: 'Add it again unchanged. If the client Pod has another address now, run make iptables and repeat step forward-rule.',
  })
}

/**
 * Through the Service every request is answered and the rule counts none; a direct request to a Pod is counted and stopped.
 */
async function mustAnswerUnseen(live: LiveCluster, service: WebService, rule: RuleNote): Promise<void> {
  const place = { node: rule.node, rule, inspect: LOOK }
  await expectCounted(live, place, () => answered(live, service, REQUESTS), {
    answers: REQUESTS,
    counted: false,
    expected: `${REQUESTS} answers through ${service.name}, and not one packet more on the rule`,
  })
  const backend = podAt(service.backends[0]?.address ?? '')
  await expectCounted(live, place, () => answered(live, backend), {
    answers: 0,
    counted: true,
    expected: `no direct answer from the Pod ${backend.address}, and a packet more on the rule`,
  })
}
