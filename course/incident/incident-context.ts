import { randomUUID } from 'node:crypto'
import type { V1Pod, V1ServiceSpec } from '@kubernetes/client-node'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { hasCondition } from '../../grading/api-object.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'
import { type HttpReply, httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { loggedRequests } from '../../grading/traffic.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { addressOf, type IncidentEnvironment, SHOP_OBJECTS } from './shop.ts'

type Answer = Pick<HttpReply, 'status' | 'error'>

const PATIENCE_SECONDS = 2

/**
 * Sends all requests in parallel, each on a separate connection, by a script that `run` runs; `source` is the client's address
 * where it has two. A request without output was not sent, and counts as unanswered.
 */
async function answersTo(
  urls: readonly string[],
  run: (script: string) => Promise<{ stdout: string }>,
  source?: string,
): Promise<Answer[]> {
  const requests = urls.map((url) => {
    const { hostname: address, port, pathname, search } = new URL(url)
    const request = { address, port: Number(port) || 80, path: `${pathname}${search}`, seconds: PATIENCE_SECONDS }
    return { ...request, ...(source !== undefined && { source }) }
  })
  const replies = readReplies((await run(httpRequests(requests))).stdout)
  return urls.map((_, index) => replies.find((reply) => reply.index === index) ?? { status: 0, error: 'no answer' })
}

const isGood = ({ status }: Answer): boolean => status >= 200 && status < 400

/** The symptom that the user still observes, in the fields of a failure. */
export interface Symptom {
  /** The command that shows it, as a learner types it. */
  inspect: string
  expected: string
  actual: string
}

/**
 * The means to examine an incident: one snapshot of the cluster and, unless it is a capture, real requests.
 */
export class IncidentContext {
  readonly snapshot: Snapshot
  readonly #live: LiveCluster | undefined
  readonly environment: IncidentEnvironment
  readonly mode: SwitchedMode

  constructor(snapshot: Snapshot, live: LiveCluster | undefined, environment: IncidentEnvironment, mode: SwitchedMode) {
    this.snapshot = snapshot
    this.#live = live
    this.environment = environment
    this.mode = mode
  }

  /** The running cluster. Throws NotApplicable for a capture. */
  get live(): LiveCluster {
    if (!this.#live) throw new NotApplicable('this incident needs requests in a running cluster, and this is a capture')
    return this.#live
  }

  get nodes(): readonly NodeView[] {
    return this.snapshot.nodes
  }

  /** The spec of a Service of the default namespace, and its labels. */
  service(name: string): (V1ServiceSpec & { labels: Record<string, string> }) | undefined {
    const object = this.snapshot.find('Service', SHOP_OBJECTS.namespace, name)
    return object && { ...(object.spec as V1ServiceSpec), labels: object.metadata.labels ?? {} }
  }

  /** The Pods of the shop that do not terminate. */
  backends() {
    return this.snapshot.items
      .filter(
        ({ kind, metadata }) =>
          kind === 'Pod' && metadata.labels?.app === SHOP_OBJECTS.shop && !metadata.deletionTimestamp,
      )
      .map((pod) => ({
        name: pod.metadata.name,
        address: pod.status?.podIP ?? '',
        node: pod.spec?.nodeName ?? '',
        ready: hasCondition(pod, 'Ready'),
      }))
  }

  pod(name: string): V1Pod | undefined {
    return this.snapshot.find('Pod', SHOP_OBJECTS.namespace, name) as V1Pod | undefined
  }

  /** Requests from the Pod customer. Fails if it is missing. */
  async fromCustomer(...urls: string[]): Promise<Answer[]> {
    if (!this.pod(SHOP_OBJECTS.customer.name))
      fail({
        inspect: 'kubectl get pods -o wide',
        expected: 'the Pod customer',
        actual: 'no Pod of that name',
        hint: `kubectl apply -f ${SHOP_OBJECTS.manifest}`,
      })
    return answersTo(urls, (script) => this.live.inPod(SHOP_OBJECTS.customer, script))
  }

  fromNode(node: string, ...urls: string[]): Promise<Answer[]> {
    return answersTo(urls, (script) => this.live.onNode(node, script))
  }

  /** Requests from outside the cluster. */
  fromOutside(source: string, ...urls: string[]): Promise<Answer[]> {
    return answersTo(urls, (script) => this.live.onNode(OUTSIDE, script), source)
  }

  /** The symptom if not all of the customer's requests to the shop are answered. */
  async customerOfShop(times = 1): Promise<Symptom | undefined> {
    const url = `http://${this.environment.shop}/`
    const answers = await this.fromCustomer(...Array<string>(times).fill(url))
    return complaint(answers, `kubectl exec customer -- curl -sS --max-time 2 ${url}`, 'an answer from the shop')
  }

  /** The symptom if the node port does not answer on every node; each node is requested from the next one. */
  async nodePortEverywhere(port = this.environment.nodePort): Promise<Symptom | undefined> {
    const { nodes } = this.environment
    const symptoms = await Promise.all(
      nodes.map(async (node, index) => {
        const from = nodes[(index + 1) % nodes.length] ?? node
        const url = `http://${addressOf(this.environment, node)}:${port}/`
        const answers = await this.fromNode(from, ...Array<string>(3).fill(url))
        return complaint(answers, `make exec NODE=${from} CMD='curl -sS --max-time 2 ${url}'`, `an answer from ${node}`)
      }),
    )
    return symptoms.find((symptom) => symptom !== undefined)
  }

  /** The number of the customer's requests that each Pod of the shop received, by the Pods' access logs. */
  async shares(times: number): Promise<Map<string, number>> {
    const token = `incident-${randomUUID().slice(0, 13)}`
    const urls = Array.from({ length: times }, (_, index) => `http://${this.environment.shop}/?${token}=${index}`)
    const answers = await this.fromCustomer(...urls)
    const pods = this.backends().flatMap(({ name, ready }) => (ready ? { pod: name } : []))
    const logged = await loggedRequests(this.live, pods, token, answers.filter(isGood).length)
    return new Map(pods.map(({ pod }) => [pod, logged.filter(({ backend }) => backend.pod === pod).length]))
  }
}

/** The symptom if not every request was answered; else undefined. */
export function complaint(answers: readonly Answer[], inspect: string, expected: string): Symptom | undefined {
  const bad = answers.filter((answer) => !isGood(answer))
  const [first] = bad
  if (!first) return undefined
  const share = answers.length > 1 ? ` (${bad.length} of ${answers.length} requests)` : ''
  const { status, error } = first
  return { inspect, expected, actual: `${status > 0 ? `status ${status}` : error}${share}` }
}
