import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import type { Difference } from '../../grading/report-schema.ts'
import { webService } from '../../grading/web-service.ts'
import { listConnections, parseConnections, watchMarked } from './observed-traffic.ts'
import { newToken, requestsOnOneConnection } from './web-requests.ts'

const REQUESTS = 10
const ATTEMPTS = 4

/** Ten requests over one connection: one connection in IPVS, and a single packet for the rule. */
export async function rulesSeeFirstPacketOnly({ live, snapshot, nodes }: CheckContext): Promise<void> {
  if (!live) throw new Trouble('no cluster to send requests in')
  const service = webService(snapshot)
  const node = nodes.at(-1)?.name ?? ''
  let said = ''
  let stuck: Difference[] = []
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const change = await watchMarked(
      live,
      node,
      `${requestsOnOneConnection(service, newToken(), REQUESTS)}; ${listConnections}`,
    )
    if (!change) throw new Trouble(`the counters of ${node} could not be read`)
    const answers = readReplies(change.output)
    const connects = answers.reduce((total, { connects }) => total + connects, 0)
    const good = answers.filter(({ status }) => status === 200).length
    const rules = change.after - change.before
    const ports = new Set(answers.map(({ port }) => port))
    const held = parseConnections(change.output, service).filter(({ clientPort }) => ports.has(clientPort)).length
    if (good === REQUESTS && connects === 1 && rules === 1 && held === 1) return
    said = `${good} answers over ${connects} connections: ${rules} packets on the rule, ${held} connections in IPVS`
    // Only counters can be disturbed by others; a request that failed will fail again.
    if (good === REQUESTS) continue
    stuck = traceLine(snapshot.node(node), 'node', service)
    break
  }
  fail({
    node,
    look: onNode(node, `iptables -t nat -nvL KUBE-SERVICES; ipvsadm -Lnc`),
    expected: `${REQUESTS} answers over 1 connection: 1 packet on the rule, 1 connection in IPVS`,
    actual: said,
    differences: stuck,
  })
}
