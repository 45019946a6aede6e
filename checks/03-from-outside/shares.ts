import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import type { ApiObject } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectField, expectSpread } from '../../grading/expect-object.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { shareBars } from '../../grading/share-bars.ts'
import { objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { WEB_NAMESPACE, type WebBackend, type WebService, webService } from '../../grading/web-service.ts'
import { timeoutScale } from '../../host/wait.ts'
import { localService } from './exposed-service.ts'
import { mustAnswer } from './load-balancer.ts'
import { askAndReadLogs, asTyped } from './outside-requests.ts'

/** The number of requests that one Pod answered. */
const podShareSchema = z.object({ pod: z.string(), node: z.string(), requests: z.number().int().nonnegative() })
const sharesSchema = z.array(podShareSchema).min(1)

export type PodShare = z.infer<typeof podShareSchema>

/** True for shares that were read back from the cluster. */
const isShares = (value: unknown): value is PodShare[] => sharesSchema.safeParse(value).success

const EXCLUDED = 'node.kubernetes.io/exclude-from-external-load-balancers'
/**
 * Allowed difference between measured and expected share in standard deviations: more than five occur once in a million
 * times.
 */
const TOLERANCE = 5

/** The number of web Pods on each node that the load balancer uses. */
export function podsByNode(snapshot: Snapshot, { backends }: WebService): Map<string, number> {
  const excluded = new Set(
    objectsOf(snapshot)
      .nodes.filter(({ labels }) => EXCLUDED in labels)
      .map(({ name }) => name),
  )
  const counts = new Map<string, number>()
  for (const { node } of backends) if (!excluded.has(node)) counts.set(node, (counts.get(node) ?? 0) + 1)
  return counts
}

/**
 * The part of all requests that a Pod on a node can expect under externalTrafficPolicy Local: the load balancer spreads over nodes,
 * each node over its own Pods.
 */
export function expectedShare(pods: ReadonlyMap<string, number>, node: string): number {
  const neighbours = pods.get(node)
  return neighbours === undefined ? 0 : 1 / pods.size / neighbours
}

/** True when a count is likely for a share. */
function isLikely(requests: number, total: number, share: number): boolean {
  return Math.abs(requests - total * share) <= TOLERANCE * Math.sqrt(total * share * (1 - share))
}

/** Some node has more Pods than another one. */
export const isUneven = (counts: readonly number[]): boolean => Math.max(...counts) !== Math.min(...counts)

/** Counts the answers of each Pod, including Pods without any, grouped by node. */
function countShares(backends: readonly WebBackend[], answered: readonly WebBackend[]): PodShare[] {
  return backends
    .map(({ pod, node }) => ({ pod, node, requests: answered.filter((one) => one.pod === pod).length }))
    .sort((a, b) => (a.node === b.node ? b.requests - a.requests : a.node < b.node ? -1 : 1))
}

const totalOf = (shares: readonly PodShare[]): number => shares.reduce((sum, { requests }) => sum + requests, 0)

/** `8 % to 51 %` */
function spanOf(shares: readonly PodShare[]): string {
  const total = totalOf(shares)
  const parts = shares.map(({ requests }) => Math.round((requests / total) * 100))
  return `${Math.min(...parts)} % to ${Math.max(...parts)} %`
}

const REQUESTS = 120
/** A share may be wrong because a node came back during a measurement: it is measured up to this often with all nodes. */
const ATTEMPTS = 3
/** A load balancer uses an excluded node again after its next health checks, which take long on a busy machine. */
const BACK_MS = 20_000
const GAP_MS = 500

/** The result of one measurement. */
interface MeasuredShares {
  shares: PodShare[]
  /** The bars as printed. */
  lines: string[]
}

/** The bars of shares, under a title. */
function drawShares(shares: readonly PodShare[], title: string): string[] {
  const bars = shares.map(({ pod, node, requests }) => ({ labels: [pod, node], count: requests }))
  return [`${totalOf(shares)} requests ${title}:`, ...shareBars(bars)]
}

/**
 * Measures the share of each Pod with real connections from outside to the load balancer's address, draws it, and fails
 * unless each matches the expectation for externalTrafficPolicy Local and the placement of the Pods.
 */
async function measureShares(context: CheckContext, live: LiveCluster): Promise<MeasuredShares> {
  const { snapshot, show } = context
  const { address, port, name } = localService(snapshot)
  const web = webService(snapshot)
  const pods = podsByNode(snapshot, web)
  await mustAnswer(live, { address, port })
  const nodes = [...pods.keys()]
  const measure = async () => {
    const { logged } = await askAndReadLogs(live, web, [{ address, port, times: REQUESTS }])
    const backends = logged.map(({ backend }) => backend)
    return countShares(web.backends, backends)
  }
  const oddOne = (shares: readonly PodShare[]) =>
    shares.find(({ node, requests }) => !isLikely(requests, totalOf(shares), expectedShare(pods, node)))
  const isGood = (shares: readonly PodShare[]) => totalOf(shares) === REQUESTS && !oddOne(shares)
  const shares = await measureWithNodes(nodes, measure, isGood)
  const total = totalOf(shares)
  const lines = drawShares(shares, `from outside to ${address}:${port}, by Pod`)
  show(lines)
  const odd = oddOne(shares)
  const wanted = odd && Math.round(expectedShare(pods, odd.node) * 100)
  const said = odd
    ? `${odd.pod} got ${odd.requests} of ${total}, not about ${wanted} %`
    : `${total} of ${REQUESTS} were answered`
  expectThat(isGood(shares), {
    inspect: asTyped({ address, port }),
    expected: `${REQUESTS} requests to ${name} spread evenly over the nodes that have Pods, and on each over its Pods`,
    actual: said,
  })
  return { shares, lines }
}

/**
 * Measures until the shares are good, at most a few times with every node of the load balancer. A measurement without answers
 * from one of them does not count until the load balancer had time to use it again.
 * @param isGood whether shares match the expectation
 * @returns the last measurement
 */
export async function measureWithNodes(
  nodes: readonly string[],
  measure: () => Promise<PodShare[]>,
  isGood: (shares: readonly PodShare[]) => boolean,
  backMs = BACK_MS,
): Promise<PodShare[]> {
  const deadline = Date.now() + backMs * timeoutScale()
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
const LOOK = `kubectl -n ${WEB_NAMESPACE} get pods -l app=web -o wide`
/** The minimum factor between the shares of Pods with few and with many neighbours. */
const CLEARLY = 1.15

/** The shares that were measured while the Pods were unevenly spread. */
const unevenShares = ({ notes }: CheckContext): PodShare[] | undefined => notes.read(NOTE, isShares)

/** With uneven Pods under externalTrafficPolicy Local, a Pod's share depends on how many neighbours it has: measured, and kept. */
export async function sharesAreUneven(context: CheckContext): Promise<void> {
  const { snapshot, live, notes, show } = context
  const known = live && unevenShares(context)
  if (known) return show(drawShares(known, 'from outside, by Pod, when they were unevenly spread'))
  localService(snapshot)
  const pods = podsByNode(snapshot, webService(snapshot))
  const spreadUnevenly = (counts: readonly number[]) => counts.length >= 2 && isUneven(counts)
  if (!live && !spreadUnevenly([...pods.values()]))
    throw new NotApplicable('the Pods were spread evenly when this capture was taken')
  expectSpread(pods, spreadUnevenly, {
    inspect: LOOK,
    expected: 'Pods of web on two nodes or more, on one of them more than on another',
    hint: 'To get there, let one node take no new Pods for a while: kubectl cordon it, scale web to 4 (or 6, where there are more than two already), kubectl uncordon it.',
  })
  if (!live) return
  const { shares } = await measureShares(context, live)
  const perPod = [...pods].map(([node, count]) => ({
    count,
    mean: shares.filter((one) => one.node === node).reduce((sum, { requests }) => sum + requests, 0) / count,
  }))
  const lone = perPod.reduce((least, one) => (one.count < least.count ? one : least))
  const crowded = perPod.reduce((most, one) => (one.count > most.count ? one : most))
  expectThat(lone.mean >= crowded.mean * CLEARLY, {
    inspect: LOOK,
    expected: 'a Pod with few neighbours that clearly gets more than one with many',
    actual: `from ${spanOf(shares)} of the requests for one Pod`,
  })
  notes.keep(NOTE, shares)
}

const HOSTNAME = 'kubernetes.io/hostname'
const MANIFEST = 'labs/03-from-outside/manifests/anti-affinity.yaml'

const expressions = z.array(
  z.object({ key: z.string(), operator: z.string(), values: z.array(z.string()).default([]) }),
)
const term = z.looseObject({
  topologyKey: z.string(),
  labelSelector: z
    .looseObject({
      matchLabels: z.record(z.string(), z.string()).default({}),
      matchExpressions: expressions.default([]),
    })
    .optional(),
})
const specSchema = z.looseObject({
  affinity: z.looseObject({
    podAntiAffinity: z.looseObject({
      preferredDuringSchedulingIgnoredDuringExecution: z.array(z.looseObject({ podAffinityTerm: term })).default([]),
      requiredDuringSchedulingIgnoredDuringExecution: z.array(term).default([]),
    }),
  }),
})

/** Every Pod of web has anti-affinity to the others, they are evenly spread, and each gets the same measured share. */
export async function sharesAreEven(context: CheckContext): Promise<void> {
  const { snapshot, live, show } = context
  localService(snapshot)
  const web = webService(snapshot)
  for (const { pod } of web.backends) {
    const found = snapshot.find('Pod', WEB_NAMESPACE, pod)
    expectField(`pod ${pod}`, 'podAntiAffinity', {
      holds: found !== undefined && keepsAway(found),
      expected: `a podAntiAffinity term with topologyKey ${HOSTNAME} that selects the Pods of web, in every Pod of web`,
      actual: `${pod} has none`,
      hint: `kubectl patch deployment ${web.name} --patch-file ${MANIFEST}`,
    })
  }
  const pods = podsByNode(snapshot, web)
  expectSpread(pods, (counts) => counts.length >= 2 && !isUneven(counts), {
    inspect: `kubectl -n ${WEB_NAMESPACE} get pods -l app=web -o wide`,
    expected: 'as many Pods of web on one node as on another, on two nodes or more',
    why: 'The scheduler places a Pod once. A running Pod is never moved, not even when a node comes back.',
    hint: 'Is the number of replicas even, and does every node take new Pods (kubectl uncordon)? Then kubectl rollout restart places all of them again.',
  })
  if (!live) return
  const { shares, lines } = await measureShares(context, live)
  const before = unevenShares(context)
  if (before) show([...lines, `One Pod's share went from ${spanOf(before)} before to ${spanOf(shares)} now.`])
}

/** True when a Pod has anti-affinity to Pods with its own labels. */
function keepsAway({ spec, metadata: { labels = {} } }: ApiObject): boolean {
  const read = specSchema.safeParse(spec)
  if (!read.success) return false
  const { podAntiAffinity: asked } = read.data.affinity
  const terms = [
    ...asked.requiredDuringSchedulingIgnoredDuringExecution,
    ...asked.preferredDuringSchedulingIgnoredDuringExecution.map(({ podAffinityTerm }) => podAffinityTerm),
  ]
  return terms.some(
    ({ topologyKey, labelSelector }) => topologyKey === HOSTNAME && matchesSelector(labelSelector, labels),
  )
}
