import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { holdsOnceSeen } from '../../grading/seen-moment.ts'
import { webService } from '../../grading/web-service.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'
import { answered } from './agent-requests.ts'
import { forwardRule, POD_PORT, stands } from './forward-rule.ts'
import { describePath, filterHooks, ipvsIsAsMade, packetPathOf } from './packet-path.ts'
import { countedDuring } from './rule-counter.ts'

const CLOSED = 'stopped-in-either-mode'
const KERNEL_TABLES = new Set(['raw', 'mangle', 'nat', 'filter', 'security'])

/**
 * IPVS mode: a rule stops the client's requests to web here, too, and what stopped them in iptables mode still stands. One
 * rule in PREROUTING does for both, as the modes part only behind it.
 */
export async function stoppedInEitherMode(context: CheckContext): Promise<void> {
  await holdsOnceSeen(context, CLOSED, () => proveStoppedInEitherMode(context))
}

async function proveStoppedInEitherMode(context: CheckContext): Promise<object> {
  const { snapshot, live } = context
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=1.20' })
  const service = webService(snapshot)
  const { address: client, node } = clientPod(context)
  ipvsIsAsMade(context, node)
  const view = snapshot.node(node)
  const path = packetPathOf(view, client, service)
  if (path.end !== 'stopped' || !KERNEL_TABLES.has(path.by.table))
    fail({
      node,
      look: onNode(node, 'iptables -nvL INPUT'),
      expected: `a rule on ${node} that stops what ${client} sends to ${service.address}, before IPVS has it`,
      actual: `a packet to ${service.name} ${describePath(path, node)}`,
    })
  const before = forwardRule(context)
  if (path.by.hook !== 'PREROUTING' && !(before && before.node === node && stands(view, before)))
    fail({
      node,
      look: onNode(node, 'iptables -nvL FORWARD'),
      expected: 'the rule in FORWARD as well, for iptables mode never asks INPUT',
      actual: `only the one in ${path.by.hook}`,
      hint: 'Put the rule of step forward-rule back beside the new one, or choose a place that the packet passes in both modes.',
    })
  const open = service.backends.find(
    ({ address }) => packetPathOf(view, client, { address, port: POD_PORT }).end !== 'stopped',
  )
  if (open)
    fail({
      node,
      look: onNode(node, 'iptables -nvL FORWARD'),
      expected: `that what the client sends straight to the Pod ${open.address} is stopped as well`,
      actual: 'such a packet gets through',
      hint: 'The rule in FORWARD is for those: leave it where it was.',
    })
  if (live) {
    const { packets, result } = await countedDuring(live, node, path.by, () => answered(live, service))
    if (result > 0 || packets < 1)
      fail({
        node,
        look: onNode(node, `iptables -t ${path.by.table} -nvL ${path.by.chain}`),
        expected: 'a request that gets no answer, and one packet more on the rule',
        actual: `${result === 0 ? 'no answer' : 'an answer'} and ${packets} packets more on the rule`,
      })
  }
  return { ...path.by, node }
}

/** Question: the chain of filter that the client's packet to web meets on its way to IPVS. */
export function chainOnTheWay(context: CheckContext): Truth {
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=1.20' })
  const service = webService(context.snapshot)
  const { address: client, node } = clientPod(context)
  return {
    accepts: filterHooks(context.snapshot.node(node), client, service),
    look: `make trace FROM=pod/client TO=svc/${service.name}:${service.port} NODE=${node}`,
  }
}
