import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import type { Truth } from '../../grading/question.ts'
import { holdsOnceSeen } from '../../grading/seen-moment.ts'
import { webService } from '../../grading/web-service.ts'
import { clientPod } from '../02-ipvs/web-requests.ts'
import { answered } from './agent-requests.ts'
import { expectForwardRule, podAt } from './forward-rule.ts'
import { expectPacket, filterHooks, ipvsIsAsMade } from './packet-path.ts'
import { expectCounted, STOPPED_AND_COUNTED } from './rule-counter.ts'

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
  const by = expectPacket(view, client, service, {
    look: 'iptables -nvL INPUT',
    expected: `a rule on ${node} that stops what ${client} sends to ${service.address}, before IPVS has it`,
  }).isStopped(({ table }) => KERNEL_TABLES.has(table))
  // One rule in PREROUTING stops both; else the one of iptables mode must still be there, too.
  if (by.hook !== 'PREROUTING') expectForwardRule(context, view)
  for (const { address } of service.backends)
    expectPacket(view, client, podAt(address), {
      look: 'iptables -nvL FORWARD',
      expected: `that what the client sends straight to the Pod ${address} is stopped as well`,
      hint: 'The rule in FORWARD is for those: leave it where it was.',
    }).isStopped()
  if (live)
    await expectCounted(
      live,
      { node, rule: by, look: `iptables -t ${by.table} -nvL ${by.chain}` },
      () => answered(live, service),
      STOPPED_AND_COUNTED,
    )
  return { ...by, node }
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
