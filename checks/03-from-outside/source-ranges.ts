import { contains } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import { tracedTo } from '../../grading/packet-trace.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { loadBalancerService, mustBeWrittenEverywhere } from './exposed-service.ts'
import { mustAnswer } from './load-balancer.ts'
import { addressesOutside, askFromOutside, asTyped, DROPPED_SECONDS, SOMEBODY_OUTSIDE } from './outside-requests.ts'

type Balanced = ReturnType<typeof loadBalancerService>

/** loadBalancerSourceRanges lets one client through to the load balancer's address and drops another. */
export async function rangesLetIn({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = loadBalancerService(snapshot)
  const { name, address, port, service } = exposed
  const ranges = service.loadBalancerSourceRanges
  if (ranges.length === 0)
    fail({
      look: `kubectl get service ${name} -o yaml | grep -A 2 loadBalancerSourceRanges`,
      expected: `loadBalancerSourceRanges on ${name} that name one of the two clients outside`,
      actual: 'none: every client is let in',
    })
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES', 'filter KUBE-PROXY-FIREWALL'],
    look: 'iptables-save | grep -E "KUBE-FW|KUBE-PROXY-FIREWALL"',
    expected: `a chain that lets ${ranges.join(', ')} pass, and a DROP for everybody else`,
  })
  if (!live) return mustChooseByRules(snapshot, exposed)
  const { own, other } = await addressesOutside(live)
  const allowed = [own, other].find((client) => client !== undefined && isIn(ranges, client))
  const refused = [own, other].find((client) => client !== undefined && !isIn(ranges, client))
  if (allowed === undefined || (refused === undefined && other !== undefined))
    fail({
      look: asTyped({ address, port, ...(other === undefined ? {} : { source: other }) }),
      expected: `ranges that hold one of ${own} and ${other}, the addresses of the machine outside, and not the other`,
      actual: `${ranges.join(', ')} ${allowed === undefined ? 'holds none' : 'holds both'}`,
    })
  await mustAnswer(live, { address, port, source: allowed })
  if (refused === undefined) return
  const request = { address, port, source: refused, seconds: DROPPED_SECONDS }
  const status = (await askFromOutside(live, [request]))[0]?.[0]
  if (status)
    fail({
      look: asTyped(request),
      expected: `no answer to ${refused}, which is in none of the ranges`,
      actual: `status ${status}`,
    })
}

const isIn = (ranges: readonly string[], client: string) => ranges.some((range) => contains(range, client))

/** By the rules of every node with a backend, a packet from a range reaches one, and a packet from elsewhere does not. */
function mustChooseByRules(snapshot: Snapshot, { service, address, port }: Balanced): void {
  const ranges = service.loadBalancerSourceRanges
  const takers = new Set(webService(snapshot).backends.map(({ node }) => node))
  const allowed = ranges[0]?.split('/')[0] ?? ''
  const mayPass = isIn(ranges, SOMEBODY_OUTSIDE)
  for (const node of snapshot.nodes.filter(({ name }) => takers.has(name))) {
    for (const [client, wanted] of [[allowed, true] as const, [SOMEBODY_OUTSIDE, mayPass] as const]) {
      const end = tracedTo(node, { outside: client }, { address, port })
      if (end.backends.length > 0 === wanted) continue
      fail({
        node: node.name,
        look: `make trace FROM=external:${client} TO=${address}:${port} NODE=${node.name}`,
        expected: wanted ? `the packet of ${client} at a backend` : `the packet of ${client} dropped`,
        actual: end.text,
      })
    }
  }
}
