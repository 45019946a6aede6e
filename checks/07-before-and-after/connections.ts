import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { holdsOnceSeen } from '../../grading/seen-moment.ts'
import { shareBars } from '../../grading/share-bars.ts'
import type { WebBackend, WebService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { CLIENT, loggedRequests, newToken } from '../02-ipvs/web-requests.ts'
import { deafScene, expectConnections } from './deaf-pod.ts'

/** What became of a number of connections, each of its own. */
export interface Connections {
  sent: number
  /** Those that nobody took. */
  failed: number
  /** Answers by the Pod that gave them. */
  answered: { pod: string; node: string; count: number }[]
}

/** Lets the client open so many connections to a Service, one after the other, whether or not the one before failed. */
export async function connect(live: LiveCluster, service: WebService, times: number): Promise<Connections> {
  const token = newToken()
  const { address, port } = service
  const script = httpRequests([{ address, port, path: `/?${token}=`, times, insist: true }])
  const requests = readReplies((await live.inPod(CLIENT, script)).stdout)
  const good = requests.filter(({ status }) => status === 200).length
  const logged = good > 0 ? await loggedRequests(live, service, token, good) : []
  const count = ({ address }: WebBackend) => logged.filter(({ backend }) => backend === address).length
  const answered = service.backends.map((one) => ({ pod: one.pod, node: one.node, count: count(one) }))
  return { sent: requests.length, failed: requests.length - good, answered }
}

/** The connections as bars, the failed ones last. */
export function connectionBars({ answered, failed }: Connections): string[] {
  const taken = answered.map(({ pod, node, count }) => ({ labels: [pod, node], count }))
  return shareBars([...taken, { labels: ['nobody', ''], count: failed }])
}

/** Shows who took the connections. Fails when one of them, or of those that were to be, was not answered. */
export function mustAllBeAnswered(
  { show }: CheckContext,
  { address, port }: WebService,
  connections: Connections,
  wanted: number,
): void {
  show(connectionBars(connections))
  const { sent, failed } = connections
  expectConnections(address, port, {
    holds: failed === 0 && sent === wanted,
    expected: `an answer to each of ${wanted} connections`,
    actual: sent === wanted ? `${failed} of ${sent} failed` : `${sent} were sent, and ${failed} of them failed`,
  })
}

/** With one of three endpoints deaf, nobody is lucky or unlucky so often in a row: once in 190,000 times. */
const CONNECTIONS = 30
const WAY_BACK = 'make iptables KUBE_PROXY_VERSION=own'

/** iptables mode: the rules choose deaf as often as anybody, and who is sent there fails. */
export function connectionsFail(context: CheckContext): Promise<void> {
  return holdsOnceSeen(context, 'connections-that-failed', async () => {
    const { live } = context
    expectMode(context, 'iptables', { hint: WAY_BACK })
    const { service, deaf } = deafScene(context)
    chainsLeadToPods(context)
    if (!live) return { at: 'a capture' }
    const connections = await connect(live, service, CONNECTIONS)
    const { sent, failed } = connections
    context.show(connectionBars(connections))
    expectConnections(service.address, service.port, {
      holds: failed > 0 && failed < sent,
      expected: `that some of ${CONNECTIONS} connections meet ${deaf.address} and fail, and others do not`,
      actual: `${failed} of ${sent} failed`,
    })
    return { sent, failed }
  })
}

/** Question: the share of connections that fail. */
export function shareThatFails(context: CheckContext): Truth {
  expectMode(context, 'iptables', { hint: WAY_BACK })
  const { service } = deafScene(context)
  return {
    accepts: [`1/${service.backends.length}`],
    look: 'kubectl get endpointslices -l app=web',
  }
}
