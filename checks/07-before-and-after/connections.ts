import { hasCondition } from '../../grading/api-object.ts'
import { type CheckContext, type LiveContext, onceSeen } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { type WebBackend, type WebService, webService } from '../../grading/expect-object.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { PacketTarget } from '../../grading/packet-trace.ts'
import type { Truth } from '../../grading/question.ts'
import {
  answersIn,
  type PodRequester,
  sendMarked,
  sendRequests,
  typedRequest,
} from '../../grading/requests.ts'
import { barsByPod, countByPod, type PodShare, shareBars } from '../../grading/shares.ts'
import { objectsOf } from '../../grading/snapshot.ts'
import { chainsLeadToPods } from '../01-iptables/service-chains.ts'
import { clientPod } from '../web-client.ts'

const FOLDER = 'labs/07-before-and-after/manifests'
const DEAF = 'deaf'

/**
 * The Service with its endpoint without a listener and the others, and the client that connects to
 * it.
 */
export interface DeafEndpoint {
  service: WebService
  /** The endpoint without a listener. */
  deaf: WebBackend
  healthy: WebBackend[]
  client: PodRequester
}

/** The Pod deaf and two others as endpoints of web, and a client. Fails when one is missing. */
export function deafEndpoint(context: CheckContext): DeafEndpoint {
  const { snapshot, live } = context
  const client = clientOf(context)
  const service = webService(snapshot)
  const deaf = service.backends.find(({ pod }) => pod === DEAF)
  const healthy = service.backends.filter(({ pod }) => pod !== DEAF)
  const isComplete = deaf !== undefined && healthy.length >= 2
  if (!isComplete && !live)
    throw new NotApplicable('the Pod deaf was no endpoint of web when this capture was taken')
  expectThat(isComplete, {
    inspect: 'kubectl get endpointslices -l app=web; kubectl get pods -l app=web -o wide',
    expected: 'two Pods of nginx and the Pod deaf among the ready endpoints of web',
    actual: deaf ? `deaf and ${healthy.length} more` : `${healthy.length} endpoints, without deaf`,
    next: deaf ? 'make web' : `kubectl apply -f ${FOLDER}/deaf.yaml`,
  })
  return { service, deaf, healthy, client }
}

/** The Pod that connects to web. Fails if it is not ready. */
export const clientOf = (context: CheckContext): PodRequester =>
  clientPod(context, '07-before-and-after')

/** Expects a result of the client's connections to an address. */
export function expectConnections(
  context: CheckContext,
  { address, port }: PacketTarget,
  { holds, ...details }: { holds: boolean; expected: string; actual: string; node?: string },
): void {
  expectThat(holds, { inspect: typedRequest(clientOf(context), { address, port }), ...details })
}

/** deaf is ready, an endpoint of web, and refuses; the others answer. */
export const onlyDeafRefuses = onceSeen('deaf-and-ready', async (context) => {
  const { deaf, healthy, client } = deafEndpoint(context)
  if (!context.live) return { deaf: deaf.address }
  const targets = [deaf, ...healthy].map(({ address }) => ({ address, port: 80 }))
  const sent = await sendRequests(context.live, client, targets)
  const answered = sent
    .filter((one) => answersIn(one).length > 0)
    .map(({ request }) => request.address)
  expectConnections(
    context,
    { address: deaf.address, port: 80 },
    {
      holds: sent[0]?.replies[0]?.status === 0 && answered.length === healthy.length,
      expected: `an answer of ${healthy.map(({ address }) => address).join(' and ')}, and none of ${deaf.address}`,
      actual: `${answered.join(', ') || 'none'} answered`,
    },
  )
  return { deaf: deaf.address }
})

/**
 * deaf has a readiness probe and is not ready, so it is not used as an endpoint. Fails otherwise.
 */
function expectDeafProbed({ snapshot }: CheckContext): void {
  const pod = snapshot.find('Pod', 'default', DEAF)
  const container = pod?.spec?.containers?.[0]
  const probed = container !== undefined && 'readinessProbe' in container
  expectThat(pod !== undefined && probed && !hasCondition(pod, 'Ready'), {
    inspect: 'kubectl get pod deaf -o wide',
    expected: 'a Pod deaf with a readiness probe that keeps it not ready',
    actual: pod ? (probed ? 'it is ready' : 'it has no probe') : 'no Pod of that name',
    next: `kubectl delete pod deaf && kubectl apply -f ${FOLDER}/deaf-probed.yaml`,
  })
}

/** The results of a number of separate connections. */
interface Connections {
  sent: number
  /** Number of failed connections. */
  failed: number
  answered: PodShare[]
}

/**
 * Opens this number of sequential connections from the client to a Service, continues after a
 * failure, and shows the answers.
 */
export async function openConnections(
  context: CheckContext,
  live: LiveCluster,
  service: Pick<WebService, 'address' | 'port' | 'backends'>,
  times: number,
): Promise<Connections> {
  const requests = [{ address: service.address, port: service.port, times, insist: true }]
  const { answered, logged } = await sendMarked(live, clientOf(context), service, requests)
  const [{ replies } = { replies: [] }] = answered
  const shares = countByPod(service.backends, await logged())
  const failed = replies.length - answersIn({ replies }).length
  context.show(shareBars([...barsByPod(shares), { labels: ['no answer', ''], count: failed }]))
  return { sent: replies.length, failed, answered: shares }
}

/** The same, and fails if one was not answered. */
export async function expectAllConnect(
  context: CheckContext,
  live: LiveCluster,
  service: WebService,
  wanted: number,
): Promise<Connections> {
  const connections = await openConnections(context, live, service, wanted)
  const { sent, failed } = connections
  expectConnections(context, service, {
    holds: failed === 0 && sent === wanted,
    expected: `an answer to each of ${wanted} connections`,
    actual:
      sent === wanted
        ? `${failed} of ${sent} failed`
        : `${sent} were sent, and ${failed} of them failed`,
  })
  return connections
}

/**
 * With one of three endpoints deaf, all connections succeed by chance only once in 190,000 times.
 */
const CONNECTIONS = 30
const RETURN_COMMAND = 'make iptables KUBE_PROXY_VERSION=own'

/** iptables mode: the rules choose deaf as often as the others, and connections to it fail. */
export const connectionsFail = onceSeen('connections-that-failed', async (context: LiveContext) => {
  expectMode(context, 'iptables', { next: RETURN_COMMAND })
  const { service, deaf } = deafEndpoint(context)
  chainsLeadToPods(context)
  const { sent, failed } = await openConnections(context, context.live, service, CONNECTIONS)
  expectConnections(context, service, {
    holds: failed > 0 && failed < sent,
    expected: `that some of ${CONNECTIONS} connections meet ${deaf.address} and fail, and others do not`,
    actual: `${failed} of ${sent} failed`,
  })
  return { sent, failed }
})

/** Prediction: how many ready endpoints the Service has with deaf. */
export function readyWithDeaf(context: CheckContext): Truth {
  const { service, healthy } = deafEndpoint(context)
  return {
    accepts: [String(service.backends.length)],
    inspect: 'kubectl get endpointslices -l app=web',
    wrong: [
      {
        when: String(healthy.length),
        because:
          'deaf counts: without a readiness probe a Pod is ready as soon as its process runs, whether it listens or not.',
      },
    ],
    because: `${healthy.length} Pods of nginx, and deaf: nothing has asked it whether it answers.`,
  }
}

/** Prediction: what a client sees when the rules choose deaf. */
export function whatTheClientSees(context: CheckContext): Truth {
  const { deaf } = deafEndpoint(context)
  return {
    accepts: ['refused'],
    inspect: typedRequest(clientOf(context), { address: deaf.address, port: 80 }),
    wrong: [
      {
        when: 'timeout',
        because:
          'A timeout means that a packet was lost. This one reaches the Pod, whose kernel has no listener and answers with a reset at once.',
      },
      {
        when: 'answer-of-another-pod',
        because:
          'A rule has translated the first packet before anything is known about the result. Nothing in the kernel tries another endpoint.',
      },
    ],
    because:
      'The Pod’s own kernel refuses, and the refusal is translated back like any other reply.',
  }
}

/** Question: the share of connections that fail. */
export function shareThatFails(context: CheckContext): Truth {
  expectMode(context, 'iptables', { next: RETURN_COMMAND })
  const { service, healthy } = deafEndpoint(context)
  return {
    accepts: [`1/${service.backends.length}`],
    inspect: 'kubectl get endpointslices -l app=web',
    wrong: [
      {
        when: `1/${healthy.length}`,
        because: `deaf is one of ${service.backends.length} ready endpoints, not of ${healthy.length}.`,
      },
      {
        when: '0',
        because: 'The rules choose deaf like any ready endpoint, and nothing tries again.',
      },
      {
        when: `${healthy.length}/${service.backends.length}`,
        because: 'That is the share that succeeds.',
      },
    ],
    because: 'Every ready endpoint has the same probability, whether it answers or not.',
  }
}

/** Prediction: what the EndpointSlice says about deaf once it has a probe. */
export function deafInSlice(context: CheckContext): Truth {
  expectDeafProbed(context)
  const { snapshot } = context
  const address = snapshot.find('Pod', 'default', DEAF)?.status?.podIP
  const found = objectsOf(snapshot)
    .endpointSlices.flatMap(({ endpoints }) => endpoints)
    .find(({ addresses }) => address !== undefined && addresses.includes(address))
  return {
    accepts: [found ? (found.ready ? 'ready' : 'not-ready') : 'absent'],
    inspect: 'kubectl get endpointslices -l app=web -o yaml',
    wrong: [
      {
        when: 'absent',
        because:
          'The EndpointSlice lists every Pod that the Service selects, each with its conditions. kube-proxy leaves out those that are not ready.',
      },
      {
        when: 'ready',
        because: 'The kubelet probes port 80, is refused, and reports the Pod as not ready.',
      },
    ],
    because:
      'The Pod is selected, so it is listed; its condition ready is false, so no rule leads to it.',
  }
}

const CONNECTIONS_AFTER = 12

/** iptables mode, and no connection fails: the readiness probe has removed deaf from the rules. */
export const probeKeepsItOut = onceSeen('deaf-and-probed', async (context) => {
  expectDeafProbed(context)
  expectMode(context, 'iptables', { next: `${RETURN_COMMAND} && make flush-nat` })
  chainsLeadToPods(context)
  if (context.live)
    await expectAllConnect(context, context.live, webService(context.snapshot), CONNECTIONS_AFTER)
  return { pod: DEAF }
})
