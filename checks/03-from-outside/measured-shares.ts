import { setTimeout as pause } from 'node:timers/promises'
import type { CheckContext } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { shareBars } from '../../grading/share-bars.ts'
import { webService } from '../../grading/web-service.ts'
import { timeoutScale } from '../../host/wait.ts'
import { askAndReadLogs } from './access-log.ts'
import { localService } from './exposed-service.ts'
import { mustAnswer } from './load-balancer.ts'
import { asTyped } from './outside-requests.ts'
import { countShares, expectedShare, isLikely, type PodShare, podsByNode, totalOf } from './shares.ts'

const REQUESTS = 120
/** A share may be odd because a node came back in the middle of a measurement: so often it is measured with all nodes. */
const ATTEMPTS = 3
/** A load balancer that left a node out takes it back after its next health checks, which take long on a busy machine. */
const BACK_MS = 20_000
const GAP_MS = 500

/** What one measurement came to. */
export interface MeasuredShares {
  shares: PodShare[]
  /** As it was shown. */
  lines: string[]
}

/** The bars of shares, under one line that says what they are. */
export function drawShares(shares: readonly PodShare[], title: string): string[] {
  const bars = shares.map(({ pod, node, requests }) => ({ labels: [pod, node], count: requests }))
  return [`${totalOf(shares)} requests ${title}:`, ...shareBars(bars)]
}

/**
 * Measures the share of each Pod with real connections from outside to the load balancer's address, draws it, and fails unless each
 * is what externalTrafficPolicy Local makes of where the Pods stand.
 */
export async function measureShares(context: CheckContext, live: LiveCluster): Promise<MeasuredShares> {
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
  if (isGood(shares)) return { shares, lines }
  const odd = oddOne(shares)
  const wanted = odd && Math.round(expectedShare(pods, odd.node) * 100)
  const said = odd
    ? `${odd.pod} got ${odd.requests} of ${total}, not about ${wanted} %`
    : `${total} of ${REQUESTS} were answered`
  return fail({
    look: asTyped({ address, port }),
    expected: `${REQUESTS} requests to ${name} spread evenly over the nodes that have Pods, and on each over its Pods`,
    actual: said,
  })
}

/**
 * Measures until the shares are good, at most a few times with every node of the load balancer. A measurement in which one of them
 * answered nothing does not count until the load balancer has had time to take it back.
 * @param isGood whether shares are what they must be
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
