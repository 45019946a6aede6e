import { contains } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectField, expectFound } from '../../grading/expect-object.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { loadBalancerService, mustBeWrittenEverywhere } from './exposed-service.ts'
import { mustAnswer, nodesWithBackends } from './load-balancer.ts'
import {
  addressesOutside,
  askFromOutside,
  asTyped,
  DROPPED_SECONDS,
  expectFromOutside,
  SOMEBODY_OUTSIDE,
} from './outside-requests.ts'

type Balanced = ReturnType<typeof loadBalancerService>

/** loadBalancerSourceRanges lets one client through to the load balancer's address and drops another. */
export async function rangesLetIn({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = loadBalancerService(snapshot)
  const { name, address, port, service } = exposed
  const ranges = service.loadBalancerSourceRanges
  expectField(`service ${name}`, 'loadBalancerSourceRanges', {
    holds: ranges.length > 0,
    expected: `loadBalancerSourceRanges on ${name} that name one of the two clients outside`,
    actual: 'none: every client is let in',
  })
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES', 'filter KUBE-PROXY-FIREWALL'],
    look: 'iptables-save | grep -E "KUBE-FW|KUBE-PROXY-FIREWALL"',
    expected: `a chain that lets ${ranges.join(', ')} pass, and a DROP for all others`,
  })
  if (!live) return mustChooseByRules(snapshot, exposed)
  const { own, other } = await addressesOutside(live)
  const allowed = [own, other].find((client) => client !== undefined && isIn(ranges, client))
  const refused = [own, other].find((client) => client !== undefined && !isIn(ranges, client))
  const bothIn = refused === undefined && other !== undefined
  const source = expectFound(bothIn ? undefined : allowed, {
    look: asTyped({ address, port, ...(other === undefined ? {} : { source: other }) }),
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
    SOMEBODY_OUTSIDE,
    { address, port },
    { reaches: isIn(ranges, SOMEBODY_OUTSIDE) },
  )
}
