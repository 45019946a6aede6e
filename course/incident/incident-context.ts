import type { V1Pod, V1ServiceSpec } from '@kubernetes/client-node'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { hasCondition } from '../../grading/api-object.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'
import type { HttpReply } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import {
  fromNode,
  fromOutside,
  fromPod,
  type Requester,
  sendMarked,
  sendRequests,
} from '../../grading/requests.ts'
import { countByPod, type PodShare } from '../../grading/shares.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { addressOf, type IncidentEnvironment, SHOP_OBJECTS } from './shop.ts'

type ReplyStatus = Pick<HttpReply, 'status' | 'error'>

const PATIENCE_SECONDS = 2
/** Also of a request that was not sent. */
const NO_ANSWER: ReplyStatus = { status: 0, error: 'no answer' }

const isGood = ({ status }: ReplyStatus): boolean => status >= 200 && status < 400

/** The symptom that the user still observes, in the fields of a failure. */
export interface Symptom {
  /** The command that shows it, as a learner types it. */
  inspect: string
  expected: string
  actual: string
}

/**
 * The means to examine an incident: one snapshot of the cluster and, unless it is a capture, real
 * requests.
 */
export class IncidentContext {
  readonly snapshot: Snapshot
  readonly #live: LiveCluster | undefined
  readonly environment: IncidentEnvironment
  readonly mode: SwitchedMode

  constructor(
    snapshot: Snapshot,
    live: LiveCluster | undefined,
    environment: IncidentEnvironment,
    mode: SwitchedMode,
  ) {
    this.snapshot = snapshot
    this.#live = live
    this.environment = environment
    this.mode = mode
  }

  /** The running cluster. Throws NotApplicable for a capture. */
  get live(): LiveCluster {
    if (!this.#live)
      throw new NotApplicable(
        'this incident needs requests in a running cluster, and this is a capture',
      )
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
          kind === 'Pod' &&
          metadata.labels?.app === SHOP_OBJECTS.shop &&
          !metadata.deletionTimestamp,
      )
      .map((pod) => ({
        pod: pod.metadata.name,
        address: pod.status?.podIP ?? '',
        node: pod.spec?.nodeName ?? '',
        ready: hasCondition(pod, 'Ready'),
      }))
  }

  pod(name: string): V1Pod | undefined {
    return this.snapshot.find('Pod', SHOP_OBJECTS.namespace, name) as V1Pod | undefined
  }

  /** The Pod customer. Fails if it is missing. */
  #customer(): Requester {
    const { name } = SHOP_OBJECTS.customer
    if (!this.pod(name))
      fail({
        inspect: 'kubectl get pods -o wide',
        expected: 'the Pod customer',
        actual: 'no Pod of that name',
        next: `kubectl apply -f ${SHOP_OBJECTS.manifest}`,
      })
    const { customer: address, node } = this.environment
    return fromPod(name, { address, node })
  }

  /**
   * One request to each URL, all in parallel; `source` is the client's address where it has two.
   */
  async #answers(
    from: Requester,
    urls: readonly string[],
    source?: string,
  ): Promise<ReplyStatus[]> {
    const requests = urls.map((url) => {
      const { hostname: address, port, pathname: path } = new URL(url)
      const request = { address, port: Number(port) || 80, path, seconds: PATIENCE_SECONDS }
      return { ...request, ...(source !== undefined && { source }) }
    })
    const sent = await sendRequests(this.live, from, requests)
    return sent.map(({ replies: [reply = NO_ANSWER] }) => reply)
  }

  async fromCustomer(...urls: string[]): Promise<ReplyStatus[]> {
    return this.#answers(this.#customer(), urls)
  }

  async fromNode(node: string, ...urls: string[]): Promise<ReplyStatus[]> {
    return this.#answers(fromNode(node), urls)
  }

  /** Requests from outside the cluster. */
  async fromOutside(source: string, ...urls: string[]): Promise<ReplyStatus[]> {
    return this.#answers(fromOutside, urls, source)
  }

  /** The symptom if not all of the customer's requests to the shop are answered. */
  async customerOfShop(times = 1): Promise<Symptom | undefined> {
    const url = `http://${this.environment.shop}/`
    const answers = await this.fromCustomer(...Array<string>(times).fill(url))
    return complaint(
      answers,
      `kubectl exec customer -- curl -sS --max-time 2 ${url}`,
      'an answer from the shop',
    )
  }

  /**
   * The symptom if the node port does not answer on every node; each node is requested from the
   * next one.
   */
  async nodePortEverywhere(port = this.environment.nodePort): Promise<Symptom | undefined> {
    const { nodes } = this.environment
    const symptoms = await Promise.all(
      nodes.map(async (node, index) => {
        const from = nodes[(index + 1) % nodes.length] ?? node
        const url = `http://${addressOf(this.environment, node)}:${port}/`
        const answers = await this.fromNode(from, ...Array<string>(3).fill(url))
        return complaint(
          answers,
          `make exec NODE=${from} CMD='curl -sS --max-time 2 ${url}'`,
          `an answer from ${node}`,
        )
      }),
    )
    return symptoms.find((symptom) => symptom !== undefined)
  }

  /**
   * The number of the customer's requests that each ready Pod of the shop received, by the Pods'
   * access logs.
   */
  async shares(times: number): Promise<PodShare[]> {
    const backends = this.backends().filter(({ ready }) => ready)
    const request = { address: this.environment.shop, port: 80, seconds: PATIENCE_SECONDS }
    const requests = Array<typeof request>(times).fill(request)
    const { logged } = await sendMarked(this.live, this.#customer(), { backends }, requests)
    return countByPod(backends, await logged())
  }
}

/** The symptom if not every request was answered; else undefined. */
export function complaint(
  answers: readonly ReplyStatus[],
  inspect: string,
  expected: string,
): Symptom | undefined {
  const bad = answers.filter((answer) => !isGood(answer))
  const [first] = bad
  if (!first) return undefined
  const share = answers.length > 1 ? ` (${bad.length} of ${answers.length} requests)` : ''
  const { status, error } = first
  return { inspect, expected, actual: `${status > 0 ? `status ${status}` : error}${share}` }
}
