import type { CheckContext } from '../check-context.ts'
import { onNode } from '../difference-report.ts'
import { fail, Trouble } from '../failure.ts'
import { webService } from '../web-service.ts'
import { loggedRequests, newToken, parseRequests, separateRequests } from './web-requests.ts'

/** A node's request reaches each backend with the address that the node uses on the way to that backend. */
export async function sourceIsEgressAddress({ live, snapshot, nodes }: CheckContext): Promise<void> {
  if (!live) throw new Trouble('no cluster to send requests in')
  const service = webService(snapshot)
  // A node that hosts a backend shows both: an address of the Pod network for its own, the node's for the other.
  const node = service.backends[0]?.node ?? nodes[0]?.name ?? ''
  const token = newToken()
  const times = Math.max(4, service.backends.length * 2)
  const routes = service.backends.map(({ address }) => `ip -o route get ${address}`).join('; ')
  const { stdout } = await live.onNode(node, `${routes}; ${separateRequests(service, token, times)}`)
  const answers = parseRequests(stdout)
  if (answers.length < times || answers.some(({ status }) => status !== 200))
    fail({
      node,
      look: onNode(node, `curl -sS --max-time 5 ${service.address}:${service.port}`),
      expected: `${times} answers to ${times} requests of the node itself`,
      actual: `answers with status ${answers.map(({ status }) => status || 'none').join(', ') || 'none'}`,
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
