// The Pods of web, and requests of the learner's client Pod or of a node to it, as the checks of several labs need them.

import { randomUUID } from 'node:crypto'
import type { CheckContext } from '../grading/check-context.ts'
import {
  expectReadyPod,
  WEB_NAMESPACE,
  type WebBackend,
  type WebService,
  webService,
} from '../grading/expect-object.ts'
import { expectThat, fail, onNode, type Words } from '../grading/failure.ts'
import { type HttpReply, httpRequests, readReplies } from '../grading/http-requests.ts'
import type { LiveCluster } from '../grading/live-cluster.ts'
import { traceCommand, traceLine } from '../grading/packet-trace.ts'
import type { Snapshot } from '../grading/snapshot.ts'
import { type LoggedRequest, loggedRequests } from '../grading/traffic.ts'
import { variantIn } from '../grading/variant.ts'

export const CLIENT = { namespace: WEB_NAMESPACE, name: 'client' }

/** A Pod of the default namespace, or a node itself, that sends requests. */
export type Requester = { name: string; address: string; node: string } | { node: string }

/** The learner's client Pod, from the manifest in the folder of a lab. Fails if it is not ready. */
export function clientPod({ snapshot }: Pick<CheckContext, 'snapshot'>, lab: string) {
  const { address, node } = expectReadyPod(snapshot.find('Pod', CLIENT.namespace, CLIENT.name), CLIENT.name, {
    inspect: 'kubectl get pod client -o wide',
    expected: 'a Pod client that is ready to send requests',
    hint: `kubectl apply -f labs/${lab}/manifests/client.yaml`,
  })
  return { name: CLIENT.name, address, node }
}

/** A unique word for the URL of requests, to find them in access logs. */
export const newToken = () => `probe-${randomUUID().slice(0, 13)}`

/**
 * Shell text: this number of requests with that token, each over a new connection unless `keep`, until one fails; prints a `#request`
 * line for each.
 */
export const requestsTo = (
  { address, port }: Pick<WebService, 'address' | 'port'>,
  times: number,
  { token = newToken(), keep = false } = {},
): string => httpRequests([{ address, port, path: `/?${token}${times > 1 ? '=' : ''}`, times, keep }])

/** The replies to requests, and what the Pods of the Service have logged about them. */
interface Answered {
  replies: HttpReply[]
  logged(): Promise<LoggedRequest<WebBackend>[]>
}

/**
 * Sends requests to a Service, each over a new connection. Fails unless each is answered with status 200; the failure includes a trace
 * of the packet through the node's rules, and the command that draws it.
 */
export async function expectAnswers(
  { snapshot }: Pick<CheckContext, 'snapshot'>,
  live: LiveCluster,
  from: Requester,
  service: WebService,
  times: number,
  words: Words = {},
): Promise<Answered> {
  const token = newToken()
  const script = requestsTo(service, times, { token })
  const isPod = 'name' in from
  const sent = isPod ? live.inPod({ ...CLIENT, name: from.name }, script) : live.onNode(from.node, script)
  const replies = readReplies((await sent).stdout)
  const sender = isPod ? { pod: from.address } : 'node'
  const who = isPod ? `the Pod ${from.name}` : from.node
  const curl = `curl -sS --max-time 5 http://${service.address}:${service.port}`
  if (replies.length < times || replies.some(({ status }) => status !== 200))
    fail({
      node: from.node,
      inspect: isPod ? `kubectl exec ${from.name} -- ${curl}` : onNode(from.node, curl),
      expected:
        times === 1 ? `an answer to a request from ${who}` : `${times} answers to ${times} requests from ${who}`,
      actual: `answers with status ${replies.map(({ status }) => status || 'none').join(', ') || 'none'}`,
      differences: traceLine(snapshot.node(from.node), sender, service),
      next: traceCommand(from.node, sender, service),
      ...words,
    })
  return { replies, logged: () => loggedRequests(live, service.backends, token, times) }
}

/** The endpoints of web are as many ready Pods as the variant requires, on at least two nodes. */
export function backendsOnTwoNodes({ snapshot }: CheckContext): void {
  const { name, backends } = webService(snapshot)
  const { replicas } = variantIn(snapshot)
  const nodes = new Set(backends.map(({ node }) => node))
  expectThat(backends.length >= replicas && nodes.size >= 2, {
    inspect: 'kubectl get pods,endpointslices -l app=web -o wide',
    expected: `${replicas} ready endpoints, on two nodes or more, in the EndpointSlice of ${name}`,
    ...(backends.length < replicas ? tooFew(snapshot, name, backends.length, replicas) : allOnOneNode(backends)),
  })
}

function tooFew(snapshot: Snapshot, name: string, ready: number, replicas: number) {
  const wanted = Number(snapshot.find('Deployment', WEB_NAMESPACE, name)?.spec?.replicas ?? 0)
  return {
    actual: `${ready} ready ${ready === 1 ? 'endpoint' : 'endpoints'}`,
    ...(wanted > 0 && wanted < replicas
      ? {
          hint: `Deployment ${name} has ${wanted} of the ${replicas} Pods that this lab needs:`,
          next: `kubectl scale deployment ${name} --replicas=${replicas}`,
        }
      : { hint: 'The events of the Pods show why they are not ready:', next: 'kubectl describe pods -l app=web' }),
  }
}

/** Schedulers may do that, as when a Deployment was scaled down. */
const allOnOneNode = (backends: WebService['backends']) => ({
  actual: `${backends.length} endpoints, all on ${backends[0]?.node}`,
  hint: 'Delete one of the Pods: the one that replaces it goes to a node that has none.',
  next: `kubectl delete pod ${backends.at(-1)?.pod}`,
})
