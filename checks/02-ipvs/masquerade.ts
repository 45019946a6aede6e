import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectAnswered } from '../../grading/expect-traffic.ts'
import { fail } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { webService } from '../../grading/web-service.ts'
import { loggedRequests, newToken, separateRequests } from './web-requests.ts'

/**
 * A node's request reaches each backend with the address that the node uses on the way to that backend. On a capture, the
 * packet is walked through what the nodes held.
 */
export async function sourceIsEgressAddress({ live, snapshot, nodes }: CheckContext): Promise<void> {
  const service = webService(snapshot)
  const backends = service.backends.map(({ address }) => address).sort()
  if (!live)
    return expectNodes(nodes).packetReaches(
      'node',
      service,
      { backends, masqueraded: true },
      {
        look: (node) => `make trace FROM=host TO=svc/${service.name}:${service.port} NODE=${node}`,
        expected: `the node's own packet at ${backends.join(' or ')}, with its source replaced`,
      },
    )
  // A node that hosts a backend shows both: an address of the Pod network for its own, the node's for the other.
  const node = service.backends[0]?.node ?? nodes[0]?.name ?? ''
  const token = newToken()
  const times = Math.max(4, service.backends.length * 2)
  const routes = service.backends.map(({ address }) => `ip -o route get ${address}`).join('; ')
  const { stdout } = await live.onNode(node, `${routes}; ${separateRequests(service, token, times)}`)
  const answers = readReplies(stdout)
  expectAnswered(
    answers,
    times,
    { snapshot, node, sender: 'node', target: service },
    {
      expected: `${times} answers to ${times} requests of the node itself`,
      hint: 'A request that is not masqueraded never finds its way back: look at KUBE-MARK-MASQ and KUBE-POSTROUTING.',
    },
  )
  const sources = new Map(
    [...stdout.matchAll(/^(\S+) .*\bsrc (\S+)/gm)].map(([, backend = '', source = '']) => [backend, source]),
  )
  for (const { backend, client } of await loggedRequests(live, service, token, times)) {
    const expected = sources.get(backend)
    if (client === expected) continue
    fail({
      node,
      look: 'kubectl logs -l app=web --prefix --tail=4',
      expected: `${expected} as the client in the log of ${backend}, the address of the interface toward it`,
      actual: `${backend} saw ${client}`,
    })
  }
}
