import { hasCondition } from '../../grading/api-object.ts'
import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { type WebBackend, type WebService, webService } from '../../grading/expect-object.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { barsByPod, countByPod, loggedRequests, type PodShare, shareBars } from '../../grading/traffic.ts'
import { chainsLeadToPods } from '../01-iptables/service-chains.ts'
import { CLIENT, clientPod, newToken } from '../web-client.ts'

const FOLDER = 'labs/07-before-and-after/manifests'
const DEAF = 'deaf'

/** The Service with its endpoint without a listener and the others, and the client that connects to it. */
export interface DeafEndpoint {
  service: WebService
  /** The endpoint without a listener. */
  deaf: WebBackend
  healthy: WebBackend[]
  /** Node of the client. */
  node: string
}

/** The Pod deaf and two others as endpoints of web, and a client. Fails when one is missing. */
export function deafEndpoint({ snapshot, live }: CheckContext): DeafEndpoint {
  const { node } = clientPod({ snapshot }, '07-before-and-after')
  const service = webService(snapshot)
  const deaf = service.backends.find(({ pod }) => pod === DEAF)
  const healthy = service.backends.filter(({ pod }) => pod !== DEAF)
  const isComplete = deaf !== undefined && healthy.length >= 2
  if (!isComplete && !live) throw new NotApplicable('the Pod deaf was no endpoint of web when this capture was taken')
  expectThat(isComplete, {
    inspect: 'kubectl get endpointslices -l app=web; kubectl get pods -l app=web -o wide',
    expected: 'two Pods of nginx and the Pod deaf among the ready endpoints of web',
    actual: deaf ? `deaf and ${healthy.length} more` : `${healthy.length} endpoints, without deaf`,
    next: deaf ? 'make web' : `kubectl apply -f ${FOLDER}/deaf.yaml`,
  })
  return { service, deaf, healthy, node }
}

/** Expects a result of the client's connections to an address. */
export function expectConnections(
  address: string,
  port: number,
  { holds, ...details }: { holds: boolean; expected: string; actual: string; node?: string },
): void {
  expectThat(holds, {
    inspect: `kubectl exec ${CLIENT.name} -- curl -sS --max-time 3 http://${address}:${port}`,
    ...details,
  })
}

/** deaf is ready, an endpoint of web, and refuses; the others answer. */
export const onlyDeafRefuses = onceSeen('deaf-and-ready', async (context) => {
  const { deaf, healthy } = deafEndpoint(context)
  if (!context.live) return { deaf: deaf.address }
  const addresses = [deaf, ...healthy].map(({ address }) => address)
  const script = httpRequests(addresses.map((address) => ({ address, port: 80 })))
  const replies = readReplies((await context.live.inPod(CLIENT, script)).stdout)
  const statuses = addresses.map((_, index) => replies.find((reply) => reply.index === index)?.status)
  const answered = addresses.filter((_, index) => statuses[index] === 200)
  expectConnections(deaf.address, 80, {
    holds: statuses[0] === 0 && answered.length === healthy.length,
    expected: `an answer of ${addresses.slice(1).join(' and ')}, and none of ${deaf.address}`,
    actual: `${answered.join(', ') || 'none'} answered`,
  })
  return { deaf: deaf.address }
})

/** deaf has a readiness probe and is not ready, so it is not used as an endpoint. Fails otherwise. */
function expectDeafProbed({ snapshot }: CheckContext): void {
  const pod = snapshot.find('Pod', 'default', DEAF)
  const container = pod?.spec?.containers?.[0]
  const probed = container !== undefined && 'readinessProbe' in container
  expectThat(pod !== undefined && probed && !hasCondition(pod, 'Ready'), {
    inspect: 'kubectl get pod deaf -o wide',
    expected: 'a Pod deaf with a readiness probe that keeps it not ready',
    actual: pod ? (probed ? 'it is ready' : 'it has no probe') : 'no Pod of that name',
    hint: `kubectl delete pod deaf, then kubectl apply -f ${FOLDER}/deaf-probed.yaml`,
  })
}

/** The results of a number of separate connections. */
interface Connections {
  sent: number
  /** Number of failed connections. */
  failed: number
  answered: PodShare[]
}

/** Opens this number of sequential connections from the client to a Service, continues after a failure, and shows the answers. */
export async function connect(
  { show }: CheckContext,
  live: LiveCluster,
  service: WebService,
  times: number,
): Promise<Connections> {
  const token = newToken()
  const { address, port, backends } = service
  const script = httpRequests([{ address, port, path: `/?${token}=`, times, insist: true }])
  const replies = readReplies((await live.inPod(CLIENT, script)).stdout)
  const good = replies.filter(({ status }) => status === 200).length
  const logged = good > 0 ? await loggedRequests(live, backends, token, good) : []
  const answered = countByPod(backends, logged)
  const failed = replies.length - good
  show(shareBars([...barsByPod(answered), { labels: ['no answer', ''], count: failed }]))
  return { sent: replies.length, failed, answered }
}

/** The same, and fails if one was not answered. */
export async function expectAllConnect(
  context: CheckContext,
  live: LiveCluster,
  service: WebService,
  wanted: number,
): Promise<Connections> {
  const connections = await connect(context, live, service, wanted)
  const { sent, failed } = connections
  expectConnections(service.address, service.port, {
    holds: failed === 0 && sent === wanted,
    expected: `an answer to each of ${wanted} connections`,
    actual: sent === wanted ? `${failed} of ${sent} failed` : `${sent} were sent, and ${failed} of them failed`,
  })
  return connections
}

/** With one of three endpoints deaf, all connections succeed by chance only once in 190,000 times. */
const CONNECTIONS = 30
const RETURN_COMMAND = 'make iptables KUBE_PROXY_VERSION=own'

/** iptables mode: the rules choose deaf as often as the others, and connections to it fail. */
export const connectionsFail = onceSeen('connections-that-failed', async (context) => {
  const { live } = context
  expectMode(context, 'iptables', { hint: RETURN_COMMAND })
  const { service, deaf } = deafEndpoint(context)
  chainsLeadToPods(context)
  if (!live) return { at: 'a capture' }
  const { sent, failed } = await connect(context, live, service, CONNECTIONS)
  expectConnections(service.address, service.port, {
    holds: failed > 0 && failed < sent,
    expected: `that some of ${CONNECTIONS} connections meet ${deaf.address} and fail, and others do not`,
    actual: `${failed} of ${sent} failed`,
  })
  return { sent, failed }
})

/** Question: the share of connections that fail. */
export function shareThatFails(context: CheckContext): Truth {
  expectMode(context, 'iptables', { hint: RETURN_COMMAND })
  const { service } = deafEndpoint(context)
  return { accepts: [`1/${service.backends.length}`], inspect: 'kubectl get endpointslices -l app=web' }
}

const CONNECTIONS_AFTER = 12

/** iptables mode, and no connection fails: the readiness probe has removed deaf from the rules. */
export const probeKeepsItOut = onceSeen('deaf-and-probed', async (context) => {
  expectDeafProbed(context)
  expectMode(context, 'iptables', { hint: `${RETURN_COMMAND}, then make flush-nat` })
  chainsLeadToPods(context)
  if (context.live) await expectAllConnect(context, context.live, webService(context.snapshot), CONNECTIONS_AFTER)
  return { pod: DEAF }
})
