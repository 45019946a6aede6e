import { type ApiObject, hasCondition } from '../../grading/api-object.ts'
import { type CheckContext, holdsOnceSeen } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectField } from '../../grading/expect-object.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { shareBars } from '../../grading/share-bars.ts'
import { type WebBackend, type WebService, webService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { CLIENT, clientPod, loggedRequests, newToken } from '../02-ipvs/web-requests.ts'

const FOLDER = 'labs/07-before-and-after/manifests'
const DEAF = 'deaf'

/** The client, the Service, and the endpoint without a listener. */
export interface DeafScene {
  service: WebService
  /** The endpoint without a listener. */
  deaf: WebBackend
  /** The others. */
  healthy: WebBackend[]
  /** Node of the client. */
  node: string
}

const deafPod = ({ snapshot }: CheckContext): ApiObject | undefined => snapshot.find('Pod', 'default', DEAF)

/** The Pod deaf and two others as endpoints of web, and a client. Fails when one is missing. */
export function deafScene(context: CheckContext): DeafScene {
  const { node } = clientPod(context, `${FOLDER}/client.yaml`)
  const service = webService(context.snapshot)
  const deaf = service.backends.find(({ pod }) => pod === DEAF)
  const healthy = service.backends.filter(({ pod }) => pod !== DEAF)
  const isComplete = deaf !== undefined && healthy.length >= 2
  if (!isComplete && !context.live)
    throw new NotApplicable('the Pod deaf was no endpoint of web when this capture was taken')
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
export function sceneIsReady(context: CheckContext): Promise<void> {
  return holdsOnceSeen(context, 'deaf-and-ready', async () => {
    const { deaf, healthy } = deafScene(context)
    if (context.live) await onlyDeafRefuses(context.live, deaf, healthy)
    return { deaf: deaf.address }
  })
}

async function onlyDeafRefuses(live: LiveCluster, deaf: WebBackend, healthy: readonly WebBackend[]): Promise<void> {
  const addresses = [deaf, ...healthy].map(({ address }) => address)
  const script = httpRequests(addresses.map((address) => ({ address, port: 80 })))
  const replies = readReplies((await live.inPod({ namespace: 'default', name: 'client' }, script)).stdout)
  const codes = addresses.map((_, index) => replies.find((reply) => reply.index === index)?.status)
  const answered = addresses.filter((_, index) => codes[index] === 200)
  expectConnections(deaf.address, 80, {
    holds: codes[0] === 0 && answered.length === healthy.length,
    expected: `an answer of ${addresses.slice(1).join(' and ')}, and none of ${deaf.address}`,
    actual: `${answered.join(', ') || 'none'} answered`,
  })
}

/** deaf has a readiness probe and is not ready, so it is not used as an endpoint. Fails otherwise. */
export function mustBeProbed(context: CheckContext): void {
  const pod = deafPod(context)
  const container = pod?.spec?.containers?.[0]
  const probed = container !== undefined && 'readinessProbe' in container
  expectField('pod deaf', 'readinessProbe', {
    holds: pod !== undefined && probed && !hasCondition(pod, 'Ready'),
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
  /** Answers by Pod. */
  answered: { pod: string; node: string; count: number }[]
}

/**
 * Opens this number of sequential connections from the client to a Service, and continues after a failure.
 */
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

/** Shows which Pods answered the connections. Fails if one was not sent or not answered. */
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

/** With one of three endpoints deaf, all connections succeed by chance only once in 190,000 times. */
const CONNECTIONS = 30
const RETURN_COMMAND = 'make iptables KUBE_PROXY_VERSION=own'

/** iptables mode: the rules choose deaf as often as the others, and connections to it fail. */
export function connectionsFail(context: CheckContext): Promise<void> {
  return holdsOnceSeen(context, 'connections-that-failed', async () => {
    const { live } = context
    expectMode(context, 'iptables', { hint: RETURN_COMMAND })
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
  expectMode(context, 'iptables', { hint: RETURN_COMMAND })
  const { service } = deafScene(context)
  return {
    accepts: [`1/${service.backends.length}`],
    inspect: 'kubectl get endpointslices -l app=web',
  }
}
