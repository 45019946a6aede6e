import type { CheckContext } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { shareBars } from '../../grading/share-bars.ts'
import { webService } from '../../grading/web-service.ts'
import { askAndReadLogs } from './access-log.ts'
import { localService } from './exposed-service.ts'
import { mustAnswer } from './load-balancer.ts'
import { asTyped } from './outside-requests.ts'
import { countShares, expectedShare, isLikely, type PodShare, podsByNode, totalOf } from './shares.ts'

const REQUESTS = 120
/** A load balancer that has just heard of a node's Pods may lag behind; so often it is measured. */
const ATTEMPTS = 3

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
  let said = ''
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const { logged } = await askAndReadLogs(live, web, [{ address, port, times: REQUESTS }])
    const shares = countShares(
      web.backends,
      logged.map(({ backend }) => backend),
    )
    const total = totalOf(shares)
    const lines = drawShares(shares, `from outside to ${address}:${port}, by Pod`)
    show(lines)
    const odd = shares.find(({ node, requests }) => !isLikely(requests, total, expectedShare(pods, node)))
    if (!odd && total === REQUESTS) return { shares, lines }
    const wanted = odd && Math.round(expectedShare(pods, odd.node) * 100)
    said = odd
      ? `${odd.pod} got ${odd.requests} of ${total}, not about ${wanted} %`
      : `${total} of ${REQUESTS} were answered`
  }
  return fail({
    look: asTyped({ address, port }),
    expected: `${REQUESTS} requests to ${name} spread evenly over the nodes that have Pods, and on each over its Pods`,
    actual: said,
  })
}
