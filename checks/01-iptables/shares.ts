import { tracePacket } from '../../dataplane/trace.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { tracedTo, traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { type WebService, webService } from '../../grading/web-service.ts'
import { CLIENT, clientPod, loggedRequests, newToken, separateRequests } from '../02-ipvs/web-requests.ts'
import { CLIENT_MANIFEST, mustRunIptables } from './iptables-mode.ts'
import { webChain } from './web-chains.ts'

const REQUESTS = 100
/** Standard deviations that a fair draw stays within, but for one in a million. */
const ONE_IN_A_MILLION = 4.75

/**
 * By the rules of every node, each Pod has the same share; and of a hundred real requests each Pod gets about as many, as
 * chance would have it.
 */
export async function sharesAreEven(context: CheckContext): Promise<void> {
  const { nodes, live, snapshot } = context
  mustRunIptables(nodes)
  const service = webService(snapshot)
  const client = clientPod(context, CLIENT_MANIFEST)
  for (const node of nodes) mustBeFairByRules(node, client.address, service, webChain(snapshot))
  if (!live) return
  const token = newToken()
  const sent = await live.inPod(CLIENT, separateRequests(service, token, REQUESTS))
  const answers = readReplies(sent.stdout).filter(({ status }) => status === 200).length
  if (answers < REQUESTS)
    fail({
      node: client.node,
      look: `kubectl exec client -- curl -sS --max-time 5 ${service.address}:${service.port}`,
      expected: `${REQUESTS} answers to ${REQUESTS} requests from the Pod client`,
      actual: `${answers} answers ${sent.stderr.trim()}`.trim(),
      differences: traceLine(snapshot.node(client.node), { pod: client.address }, service),
    })
  const logged = await loggedRequests(live, service, token, REQUESTS)
  const counts = service.backends.map(({ address }) => logged.filter(({ backend }) => backend === address).length)
  if (isFair(counts)) return
  fail({
    node: client.node,
    look: 'kubectl logs -l app=web --prefix --tail=40',
    expected: `about ${Math.round(REQUESTS / counts.length)} of ${REQUESTS} requests for each of ${counts.length} Pods`,
    actual: service.backends.map(({ pod }, index) => `${pod} ${counts[index]}`).join(', '),
  })
}

/** Pearson's test: true unless counts are further apart than an even draw's would be once in a million times. */
function isFair(counts: readonly number[]): boolean {
  const total = counts.reduce((sum, count) => sum + count, 0)
  const even = total / counts.length
  const freedom = counts.length - 1
  if (freedom < 1 || total === 0) return total > 0
  const distance = counts.reduce((sum, count) => sum + (count - even) ** 2 / even, 0)
  // Wilson and Hilferty's approximation of the chi-squared distribution's tail.
  const spread = 2 / (9 * freedom)
  return distance <= freedom * (1 - spread + ONE_IN_A_MILLION * Math.sqrt(spread)) ** 3
}

function mustBeFairByRules(node: NodeView, source: string, service: WebService, chain: string): void {
  const { name, state } = node
  const { address, port, backends } = service
  const packet = { from: 'pod', source, destination: address, port, protocol: 'tcp' } as const
  const { outcomes } = tracePacket(state, packet, { matchingOnly: true })
  const even = 1 / backends.length
  const unfair = backends.find((backend) => {
    const own = outcomes.filter(({ to }) => to.startsWith(`${backend.address}:`))
    return Math.abs(own.reduce((sum, { probability }) => sum + probability, 0) - even) > 1e-6
  })
  if (!unfair) return
  const shares = outcomes.map(({ to, probability }) => `${to} ${(100 * probability).toFixed(1)} %`).join(', ')
  fail({
    node: name,
    look: onNode(name, `iptables -t nat -S ${chain}`),
    expected: `${(100 * even).toFixed(1)} % for each of ${backends.length} Pods`,
    actual: shares || tracedTo(node, { pod: source }, service).text,
    why: 'Each rule draws from what the rules above it let pass, so the probabilities 1/n, 1/(n-1) … 1 give equal shares.',
  })
}
