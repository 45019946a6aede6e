import { setTimeout as pause } from 'node:timers/promises'
import type { V1PodAffinityTerm, V1PodSpec } from '@kubernetes/client-node'
import * as z from 'zod'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import type { ApiObject } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { WEB_NAMESPACE, webService } from '../../grading/expect-object.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { fromOutside, sendMarked, typedRequest } from '../../grading/requests.ts'
import {
  barsByPod,
  countByPod,
  isLikelyShare,
  type PodShare,
  shareBars,
} from '../../grading/shares.ts'
import { objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { scaledMs } from '../../host/wait.ts'
import { expectAllAnswered, localService } from './exposed-service.ts'

const sharesSchema = z
  .array(z.object({ pod: z.string(), node: z.string(), requests: z.number().int().nonnegative() }))
  .min(1)

const EXCLUDED = 'node.kubernetes.io/exclude-from-external-load-balancers'

/** The number of web Pods on each node that the load balancer uses. */
function podsByNode(snapshot: Snapshot): Map<string, number> {
  const excluded = objectsOf(snapshot).nodes.flatMap(({ name, labels }) =>
    EXCLUDED in labels ? name : [],
  )
  const counts = new Map<string, number>()
  for (const { node } of webService(snapshot).backends)
    if (!excluded.includes(node)) counts.set(node, (counts.get(node) ?? 0) + 1)
  return counts
}

/**
 * A Pod's part of all requests under externalTrafficPolicy Local: the load balancer spreads over
 * nodes, each node over its own Pods.
 */
function expectedShare(pods: ReadonlyMap<string, number>, node: string): number {
  const neighbours = pods.get(node)
  return neighbours === undefined ? 0 : 1 / pods.size / neighbours
}

const isUneven = (pods: ReadonlyMap<string, number>): boolean => new Set(pods.values()).size > 1

const describeSpread = (pods: ReadonlyMap<string, number>): string =>
  [...pods].map(([node, count]) => `${count} on ${node}`).join(', ') || 'no ready Pod'

const totalOf = (shares: readonly PodShare[]): number =>
  shares.reduce((sum, { requests }) => sum + requests, 0)

/** `8 % to 51 %` */
function spanOf(shares: readonly PodShare[]): string {
  const parts = shares.map(({ requests }) => Math.round((requests / totalOf(shares)) * 100))
  return `${Math.min(...parts)} % to ${Math.max(...parts)} %`
}

const drawShares = (shares: readonly PodShare[], title: string): string[] => [
  `${totalOf(shares)} requests ${title}:`,
  ...shareBars(barsByPod(shares)),
]

const REQUESTS = 120
/**
 * A share may be wrong because a node came back during a measurement: it is measured up to this
 * often with all nodes.
 */
const ATTEMPTS = 3
/**
 * A load balancer uses an excluded node again after its next health checks, which take long on a
 * busy machine.
 */
const BACK_MS = 20_000
const GAP_MS = 500

/**
 * Measures each Pod's share of real connections from outside, draws it, and fails unless it matches
 * policy Local and the Pods' placement.
 */
async function measureShares({ snapshot, show }: CheckContext, live: LiveCluster) {
  const { address, port, name } = localService(snapshot)
  const web = webService(snapshot)
  const pods = podsByNode(snapshot)
  await expectAllAnswered(live, { address, port })
  const measure = async () => {
    const { logged } = await sendMarked(live, fromOutside, web, [
      { address, port, times: REQUESTS },
    ])
    const shares = countByPod(web.backends, await logged())
    return shares.sort((a, b) => a.node.localeCompare(b.node) || b.requests - a.requests)
  }
  const unlikely = (shares: readonly PodShare[]) =>
    shares.find(
      ({ node, requests }) => !isLikelyShare(requests, totalOf(shares), expectedShare(pods, node)),
    )
  const isGood = (shares: readonly PodShare[]) => totalOf(shares) === REQUESTS && !unlikely(shares)
  const shares = await measureWithNodes([...pods.keys()], measure, isGood)
  const total = totalOf(shares)
  const lines = drawShares(shares, `from outside to ${address}:${port}, by Pod`)
  show(lines)
  const wrong = unlikely(shares)
  const wanted = wrong && Math.round(expectedShare(pods, wrong.node) * 100)
  expectThat(isGood(shares), {
    inspect: typedRequest(fromOutside, { address, port, path: '/' }),
    expected: `${REQUESTS} requests to ${name} spread evenly over the nodes that have Pods, and on each over its Pods`,
    actual: wrong
      ? `${wrong.pod} got ${wrong.requests} of ${total}, not about ${wanted} %`
      : `${total} of ${REQUESTS} were answered`,
  })
  return { shares, lines }
}

/**
 * Measures until the shares are good, at most a few times with every node of the load balancer. A
 * measurement without answers from one of them does not count until the load balancer had time to
 * use it again.
 * @param isGood whether shares match the expectation
 * @returns the last measurement
 */
export async function measureWithNodes(
  nodes: readonly string[],
  measure: () => Promise<PodShare[]>,
  isGood: (shares: readonly PodShare[]) => boolean,
  backMs = BACK_MS,
): Promise<PodShare[]> {
  const deadline = Date.now() + scaledMs(backMs)
  for (let counted = 0; ; ) {
    const shares = await measure()
    const answered = new Set(shares.flatMap(({ node, requests }) => (requests > 0 ? [node] : [])))
    const leftOut = nodes.some((node) => !answered.has(node))
    if (!leftOut) counted++
    if (isGood(shares) || counted >= ATTEMPTS || (leftOut && Date.now() >= deadline)) return shares
    if (leftOut) await pause(GAP_MS)
  }
}

const NOTE = 'uneven-shares'
const LIST_PODS = `kubectl -n ${WEB_NAMESPACE} get pods -l app=web -o wide`
/** The minimum factor between the shares of Pods with few and with many neighbours. */
const CLEARLY = 1.15

/**
 * The Pods of web by node, on two nodes or more, on one of them more than on another. Not
 * applicable for an earlier capture.
 */
function unevenPods({ snapshot, live }: CheckContext): Map<string, number> {
  localService(snapshot)
  const pods = podsByNode(snapshot)
  const isSpread = pods.size >= 2 && isUneven(pods)
  if (!live && !isSpread)
    throw new NotApplicable('the Pods were spread evenly when this capture was taken')
  expectThat(isSpread, {
    inspect: LIST_PODS,
    expected: 'Pods of web on two nodes or more, on one of them more than on another',
    actual: describeSpread(pods),
    hint: 'To get there, let one node take no new Pods for a while: kubectl cordon it, scale web to 4 (or 6, where there are more than two already), kubectl uncordon it.',
  })
  return pods
}

/**
 * With uneven Pods under externalTrafficPolicy Local, a Pod's share depends on how many neighbours
 * it has: measured, and kept.
 */
export async function sharesAreUneven(context: CheckContext): Promise<void> {
  const { live, notes, show } = context
  const known = live && notes.read(NOTE, sharesSchema)
  if (known) return show(drawShares(known, 'from outside, by Pod, when they were unevenly spread'))
  const pods = unevenPods(context)
  if (!live) return
  const { shares } = await measureShares(context, live)
  const meanOn = ([node = '', count = 1] = []) =>
    totalOf(shares.filter((one) => one.node === node)) / count
  const byCount = [...pods].sort(([, one], [, other]) => one - other)
  expectThat(meanOn(byCount[0]) >= meanOn(byCount.at(-1)) * CLEARLY, {
    inspect: LIST_PODS,
    expected: 'a Pod with few neighbours that clearly gets more than one with many',
    actual: `from ${spanOf(shares)} of the requests for one Pod`,
  })
  notes.keep(NOTE, shares)
}

/** The node with the most, or the fewest, Pods of web. */
function extremeNode(pods: ReadonlyMap<string, number>, which: 'most' | 'fewest'): string {
  const [first = '', last = ''] = [...pods]
    .toSorted(([, a], [, b]) => a - b)
    .flatMap(([name], index, all) => (index === 0 || index === all.length - 1 ? name : []))
  return which === 'most' ? last : first
}

/** A share as a fraction, a number and percentages. */
const waysToWrite = (share: number): string[] => [
  `1/${Math.round(1 / share)}`,
  String(share),
  ...[0, 1, 2].map((digits) => `${(share * 100).toFixed(digits)}%`),
]

const EQUAL_SHARE =
  'That would be right if the load balancer divided by Pods. It divides by nodes, because it knows nothing of Pods.'

/**
 * Prediction: the share of one Pod on the node with the fewest Pods, while they are unevenly
 * spread.
 */
export function shareOnEmptiestNode(context: CheckContext): Truth {
  const pods = unevenPods(context)
  const total = [...pods.values()].reduce((sum, count) => sum + count, 0)
  return {
    accepts: waysToWrite(expectedShare(pods, extremeNode(pods, 'fewest'))),
    inspect: LIST_PODS,
    wrong: [{ when: `1/${total}`, because: EQUAL_SHARE }],
    because:
      'Each node gets the same share, and this Pod divides that of its node with few others or none.',
  }
}

/**
 * Question: the share of one Pod on the node with the most Pods, while they are unevenly spread.
 */
export function shareOnFullestNode(context: CheckContext): Truth {
  const pods = unevenPods(context)
  const fullest = extremeNode(pods, 'most')
  const total = [...pods.values()].reduce((sum, count) => sum + count, 0)
  return {
    accepts: waysToWrite(expectedShare(pods, fullest)),
    inspect: LIST_PODS,
    wrong: [
      { when: `1/${total}`, because: EQUAL_SHARE },
      {
        when: `1/${pods.get(fullest)}`,
        because:
          "That is its share of its own node's traffic. The node itself gets only a part of all requests.",
      },
      {
        when: `1/${pods.size}`,
        because: 'That is the share of the whole node. All Pods on it divide it among them.',
      },
    ],
    because:
      'One divided by the number of nodes with Pods, divided by the number of Pods on this node.',
  }
}

const HOSTNAME = 'kubernetes.io/hostname'
const MANIFEST = 'labs/03-from-outside/manifests/anti-affinity.yaml'

/**
 * Every Pod of web has anti-affinity to the others, they are evenly spread, and each gets the same
 * measured share.
 */
export async function sharesAreEven(context: CheckContext): Promise<void> {
  const { snapshot, live, notes, show } = context
  localService(snapshot)
  const web = webService(snapshot)
  for (const { pod } of web.backends) {
    const found = snapshot.find('Pod', WEB_NAMESPACE, pod)
    expectThat(found && keepsAway(found), {
      inspect: `kubectl get pod ${pod} -o yaml | grep -A 9 podAntiAffinity`,
      expected: `a podAntiAffinity term with topologyKey ${HOSTNAME} that selects the Pods of web, in every Pod of web`,
      actual: `${pod} has none`,
      next: `kubectl patch deployment ${web.name} --patch-file ${MANIFEST}`,
    })
  }
  const pods = podsByNode(snapshot)
  expectThat(pods.size >= 2 && !isUneven(pods), {
    inspect: LIST_PODS,
    expected: 'as many Pods of web on one node as on another, on two nodes or more',
    actual: describeSpread(pods),
    why: 'The scheduler places a Pod once. A running Pod is never moved, not even when a node comes back.',
    hint: 'Is the number of replicas even, and does every node take new Pods (kubectl uncordon)? Then kubectl rollout restart places all of them again.',
  })
  if (!live) return
  const { shares, lines } = await measureShares(context, live)
  const before = notes.read(NOTE, sharesSchema)
  if (before)
    show([...lines, `One Pod's share went from ${spanOf(before)} before to ${spanOf(shares)} now.`])
}

/** True when a Pod has anti-affinity to Pods with its own labels. */
function keepsAway({ spec, metadata: { labels = {} } }: ApiObject): boolean {
  const rules = (spec as V1PodSpec | undefined)?.affinity?.podAntiAffinity
  const terms: V1PodAffinityTerm[] = [
    ...(rules?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
    ...(rules?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(
      ({ podAffinityTerm }) => podAffinityTerm,
    ),
  ]
  return terms.some(
    ({ topologyKey, labelSelector }) =>
      topologyKey === HOSTNAME && matchesSelector(labelSelector, labels),
  )
}
