import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { holdsOnceSeen } from '../../grading/seen-moment.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { type WebService, webService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'
import { answered } from './agent-requests.ts'
import { describePath, ipvsIsAsMade, packetPathOf, type Stop } from './packet-path.ts'
import { countedDuring } from './rule-counter.ts'

/** A rule of the learner's that stopped the client in iptables mode. */
export interface RuleNote extends Stop {
  node: string
}

const STOPPED = 'stopped-in-iptables-mode'
const NOT_ASKED = 'not-asked-in-ipvs-mode'
/** The port of the Pods behind web: what a rule behind the translation sees. */
export const POD_PORT = 80
const REQUESTS = 3

const isRuleNote = (value: unknown): value is RuleNote =>
  typeof value === 'object' &&
  value !== null &&
  ['node', 'table', 'chain', 'rule'].every((key) => key in value && typeof value[key as keyof object] === 'string')

/** The rule of step forward-rule; undefined before that step has passed. */
export const forwardRule = ({ notes }: CheckContext): RuleNote | undefined => notes.read(STOPPED, isRuleNote)

/** Whether a rule is still where it was. */
export const stands = ({ state }: NodeView, { table, chain, rule }: Stop): boolean =>
  state.iptables
    .get(table)
    ?.get(chain)
    ?.rules.some(({ spec }) => `-A ${chain} ${spec}` === rule) ?? false

/** iptables mode: a rule in FORWARD of the client's node stops its requests to web. */
export async function forwardRuleStops(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, STOPPED, () => proveForwardRuleStops(context))
}

async function proveForwardRuleStops(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'iptables', {
    hint: 'make iptables, then make flush-nat; this lab begins in that mode (make reset-5).',
  })
  const service = webService(snapshot)
  const { address: client, node } = clientPod(context)
  chainsLeadToPods({ ...context, nodes: [snapshot.node(node)] })
  const look = onNode(node, 'iptables -nvL FORWARD')
  const path = packetPathOf(snapshot.node(node), client, service)
  if (path.end !== 'stopped' || path.by.hook !== 'FORWARD')
    fail({
      node,
      look,
      expected: `a rule in FORWARD on ${node} that stops the packets of ${client} to port ${POD_PORT} of the Pods`,
      actual: `a packet to ${service.name} ${describePath(path, node)}`,
    })
  if (live) {
    const { packets, result } = await countedDuring(live, node, path.by, () => answered(live, service))
    if (result > 0 || packets < 1)
      fail({
        node,
        look,
        expected: 'a request that gets no answer, and one packet more on the rule',
        actual: `${result === 0 ? 'no answer' : 'an answer'} and ${packets} packets more on the rule`,
      })
  }
  return { ...path.by, node }
}

/** IPVS mode: the same rule stands, requests to web are answered, and the rule has not seen them. */
export async function forwardRuleNotAsked(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, NOT_ASKED, () => proveForwardRuleNotAsked(context))
}

async function proveForwardRuleNotAsked(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=1.20' })
  const service = webService(snapshot)
  const { address: client, node } = clientPod(context)
  ipvsIsAsMade(context, node)
  const rule = forwardRule(context)
  const look = onNode(node, 'iptables -nvL FORWARD')
  const view = snapshot.node(node)
  if (!rule || rule.node !== node || !stands(view, rule))
    fail({
      node,
      look,
      expected: `the rule that stopped the client in iptables mode, still on ${node}`,
      actual: rule ? `it is gone: ${rule.rule}` : 'the grader has not seen it stop anything',
      hint: 'Put it back as it was. If the client Pod has another address by now, go back to make iptables and begin with step forward-rule.',
    })
  mustPassIPVS(view, client, service)
  mustStillStopPods(view, client, service, rule)
  if (live) await mustAnswerUnseen(context, service, rule)
  return rule
}

function mustPassIPVS(view: NodeView, client: string, service: WebService): void {
  const path = packetPathOf(view, client, service)
  if (path.end === 'sent on') return
  fail({
    node: view.name,
    look: onNode(view.name, 'iptables -nvL; ipvsadm -Ln'),
    expected: `a packet to ${service.name} that IPVS sends on`,
    actual: `it ${describePath(path, view.name)}`,
    hint: 'Only the rule in FORWARD should stand; take away what else you have put into the tables.',
  })
}

function mustStillStopPods(view: NodeView, client: string, { backends }: WebService, rule: Stop): void {
  for (const { address } of backends) {
    const path = packetPathOf(view, client, { address, port: POD_PORT })
    if (path.end === 'stopped' && path.by.rule === rule.rule) continue
    fail({
      node: view.name,
      look: onNode(view.name, 'iptables -nvL FORWARD'),
      expected: `that the rule still stops what the client sends straight to the Pod ${address}`,
      actual: `such a packet ${describePath(path, view.name)}`,
    })
  }
}

/** Through the Service every request is answered and the rule counts none; straight to a Pod it counts and stops. */
async function mustAnswerUnseen({ live }: CheckContext, service: WebService, rule: RuleNote): Promise<void> {
  if (!live) return
  const look = onNode(rule.node, 'iptables -nvL FORWARD')
  const through = await countedDuring(live, rule.node, rule, () => answered(live, service, REQUESTS))
  if (through.result !== REQUESTS || through.packets !== 0)
    fail({
      node: rule.node,
      look,
      expected: `${REQUESTS} answers through ${service.name}, and not one packet more on the rule`,
      actual: `${through.result} answers and ${through.packets} packets more on the rule`,
    })
  const backend = { address: service.backends[0]?.address ?? '', port: POD_PORT }
  const straight = await countedDuring(live, rule.node, rule, () => answered(live, backend))
  if (straight.result > 0 || straight.packets < 1)
    fail({
      node: rule.node,
      look,
      expected: `no answer straight from the Pod ${backend.address}, and a packet more on the rule`,
      actual: `${straight.result === 0 ? 'no answer' : 'an answer'} and ${straight.packets} packets more on the rule`,
    })
}
