import { contains } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectField, expectFound } from '../../grading/expect-object.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { DeadlineError, waitFor } from '../../host/wait.ts'
import { loadBalancerService, mustBeWrittenEverywhere } from './exposed-service.ts'
import {
  addressesOutside,
  askFromOutside,
  asTyped,
  DROPPED_SECONDS,
  EXAMPLE_CLIENT,
  expectFromOutside,
  type Request,
} from './outside-requests.ts'

/** How long a load balancer may take to notice a change: it sends health checks every few seconds. */
const NOTICE_MS = 6000
const REQUESTS = 16

/**
 * Every node has rules for the load balancer's address with its own chain for outside traffic, and an outside client gets an
 * answer.
 */
export async function addressAnswers({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = loadBalancerService(snapshot)
  const { name, address, port } = exposed
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES'],
    inspect: `iptables -t nat -S KUBE-SERVICES | grep ${address}`,
    expected: `a rule for ${address} port ${port} that leads to the chains of ${name} for traffic from outside`,
  })
  if (live) await mustAnswer(live, { address, port })
  else mustReachByRules(snapshot, exposed)
}

/**
 * Waits until requests from outside are answered, enough for each node behind the load balancer; fails after the load
 * balancer's reaction time.
 */
export async function mustAnswer(live: LiveCluster, request: Request): Promise<void> {
  let statuses: readonly number[] = []
  try {
    await waitFor('answers', NOTICE_MS, async () => {
      statuses = (await askFromOutside(live, [{ seconds: 2, times: REQUESTS, ...request }]))[0] ?? []
      return statuses.length === REQUESTS && statuses.every((status) => status === 200)
    })
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
    expectFromOutside({ ...request, times: REQUESTS }, statuses, {
      times: REQUESTS,
      expected: `answers from ${request.address} to ${REQUESTS} requests of a client outside the cluster`,
      hint: 'Does any node accept its traffic? Compare the endpoints, the policy and the allowed sources of the Service.',
    })
  }
}

/** By the rules of every node with a backend, a packet from an allowed client reaches a backend. */
function mustReachByRules(
  snapshot: Snapshot,
  { service, address, port }: ReturnType<typeof loadBalancerService>,
): void {
  const [range] = service.loadBalancerSourceRanges
  const source = range?.split('/')[0] ?? EXAMPLE_CLIENT
  expectNodes(nodesWithBackends(snapshot)).packetFromOutsideReachesBackend(source, { address, port })
}

/** The nodes that have a ready Pod of web. */
function nodesWithBackends(snapshot: Snapshot): NodeView[] {
  const names = new Set(webService(snapshot).backends.map(({ node }) => node))
  return snapshot.nodes.filter(({ name }) => names.has(name))
}

type Balanced = ReturnType<typeof loadBalancerService>

/** loadBalancerSourceRanges admits one client to the load balancer's address and drops another. */
export async function rangesLetIn({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = loadBalancerService(snapshot)
  const { name, address, port, service } = exposed
  const ranges = service.loadBalancerSourceRanges
  expectField(`service ${name}`, 'loadBalancerSourceRanges', {
    holds: ranges.length > 0,
    expected: `loadBalancerSourceRanges on ${name} that name one of the two clients outside`,
    actual: 'none: every client is admitted',
  })
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES', 'filter KUBE-PROXY-FIREWALL'],
    inspect: 'iptables-save | grep -E "KUBE-FW|KUBE-PROXY-FIREWALL"',
    expected: `a chain that lets ${ranges.join(', ')} pass, and a DROP for all others`,
  })
  if (!live) return mustChooseByRules(snapshot, exposed)
  const { own, other } = await addressesOutside(live)
  const allowed = [own, other].find((client) => client !== undefined && isIn(ranges, client))
  const refused = [own, other].find((client) => client !== undefined && !isIn(ranges, client))
  const bothIn = refused === undefined && other !== undefined
  const source = expectFound(bothIn ? undefined : allowed, {
    inspect: asTyped({ address, port, ...(other === undefined ? {} : { source: other }) }),
    expected: `ranges that hold one of ${own} and ${other}, the addresses of the machine outside, and not the other`,
    actual: `${ranges.join(', ')} ${allowed === undefined ? 'holds none' : 'holds both'}`,
  })
  await mustAnswer(live, { address, port, source })
  if (refused === undefined) return
  const request = { address, port, source: refused, seconds: DROPPED_SECONDS }
  const [statuses = []] = await askFromOutside(live, [request])
  expectFromOutside(request, statuses, {
    times: 0,
    expected: `no answer to ${refused}, which is in none of the ranges`,
  })
}

const isIn = (ranges: readonly string[], client: string) => ranges.some((range) => contains(range, client))

/** By the rules of every node with a backend, a packet from a range reaches one, and a packet from elsewhere does not. */
function mustChooseByRules(snapshot: Snapshot, { service, address, port }: Balanced): void {
  const ranges = service.loadBalancerSourceRanges
  const allowed = ranges[0]?.split('/')[0] ?? ''
  const expectation = expectNodes(nodesWithBackends(snapshot))
  expectation.packetFromOutsideReachesBackend(allowed, { address, port })
  expectation.packetFromOutsideReachesBackend(
    EXAMPLE_CLIENT,
    { address, port },
    { reaches: isIn(ranges, EXAMPLE_CLIENT) },
  )
}
