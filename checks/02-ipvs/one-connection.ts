import type { CheckContext } from '../check-context.ts'
import { onNode } from '../difference-report.ts'
import { fail, Trouble } from '../failure.ts'
import { webService } from '../web-service.ts'
import { metered } from './meters.ts'
import { newToken, parseRequests, requestsOnOneConnection } from './web-requests.ts'

const REQUESTS = 10
const ATTEMPTS = 4

/** Ten requests over one connection: many packets for IPVS, one connection, and one packet for the rule. */
export async function rulesSeeFirstPacketOnly({ live, snapshot, nodes }: CheckContext): Promise<void> {
  if (!live) throw new Trouble('no cluster to send requests in')
  const service = webService(snapshot)
  const node = nodes.at(-1)?.name ?? ''
  let said = ''
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const change = await metered(live, node, service, requestsOnOneConnection(service, newToken(), REQUESTS))
    if (!change) throw new Trouble(`the counters of ${node} could not be read`)
    const answers = parseRequests(change.output)
    const connects = answers.reduce((total, { number }) => total + number, 0)
    const good = answers.filter(({ status }) => status === 200).length
    const rules = change.after.marked - change.before.marked
    const connections = change.after.connections - change.before.connections
    const packets = change.after.packets - change.before.packets
    if (good === REQUESTS && connects === 1 && rules === 1 && connections === 1 && packets > REQUESTS) return
    said = `${good} answers over ${connects} connections: ${rules} packets on the rule, ${connections} connections and ${packets} packets in IPVS`
  }
  fail({
    node,
    look: onNode(node, `ipvsadm -Ln --stats -t ${service.address}:${service.port}`),
    expected: `${REQUESTS} answers over 1 connection: 1 packet on the rule, 1 connection and more than ${REQUESTS} packets in IPVS`,
    actual: said,
  })
}
