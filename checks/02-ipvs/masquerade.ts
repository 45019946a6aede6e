import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { tracedTo, traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { type WebService, webService } from '../../grading/web-service.ts'
import { loggedRequests, newToken, separateRequests } from './web-requests.ts'

/**
 * A node's request reaches each backend with the address that the node uses on the way to that backend. On a capture, the
 * packet is walked through what the nodes held.
 */
export async function sourceIsEgressAddress({ live, snapshot, nodes }: CheckContext): Promise<void> {
  const service = webService(snapshot)
  if (!live) return mustBeMasqueraded(nodes, service)
  // A node that hosts a backend shows both: an address of the Pod network for its own, the node's for the other.
  const node = service.backends[0]?.node ?? nodes[0]?.name ?? ''
  const token = newToken()
  const times = Math.max(4, service.backends.length * 2)
  const routes = service.backends.map(({ address }) => `ip -o route get ${address}`).join('; ')
  const { stdout } = await live.onNode(node, `${routes}; ${separateRequests(service, token, times)}`)
  const answers = readReplies(stdout)
  if (answers.length < times || answers.some(({ status }) => status !== 200))
    fail({
      node,
      look: onNode(node, `curl -sS --max-time 5 ${service.address}:${service.port}`),
      expected: `${times} answers to ${times} requests of the node itself`,
      actual: `answers with status ${answers.map(({ status }) => status || 'none').join(', ') || 'none'}`,
      differences: traceLine(snapshot.node(node), 'node', service),
      hint: 'A request that is not masqueraded never finds its way back: look at KUBE-MARK-MASQ and KUBE-POSTROUTING.',
    })
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

/** By the rules of every node, its own packet reaches each ready backend with another source. */
function mustBeMasqueraded(nodes: readonly NodeView[], service: WebService): void {
  const wanted = service.backends.map(({ address }) => address).sort()
  for (const node of nodes) {
    const end = tracedTo(node, 'node', service)
    if (end.masqueraded && end.backends.toSorted().join() === wanted.join()) continue
    fail({
      node: node.name,
      look: `make trace FROM=host TO=svc/${service.name}:${service.port} NODE=${node.name}`,
      expected: `the node's own packet at ${wanted.join(' or ')}, with its source replaced`,
      actual: end.text,
    })
  }
}
