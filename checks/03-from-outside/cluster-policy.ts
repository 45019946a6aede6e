import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { tracedTo, traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { type WebService, webService } from '../../grading/web-service.ts'
import { askAndReadLogs, type LoggedRequest } from './access-log.ts'
import { addressOf, mustBeWrittenEverywhere, nodePortService } from './exposed-service.ts'
import { asTyped, type Request, SOMEBODY_OUTSIDE } from './outside-requests.ts'

/** To each node so many, so that some surely go to a Pod elsewhere. */
const REQUESTS = 6

interface Asked extends Request {
  node: NodeView
}

/**
 * Under externalTrafficPolicy Cluster a node passes requests on to Pods elsewhere, and no Pod sees who asked: each logs an address of
 * the node that was asked.
 */
export async function clientIsLost({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = nodePortService(snapshot)
  if (exposed.policy !== 'Cluster')
    fail({
      look: `kubectl get service ${exposed.name} -o yaml | grep externalTrafficPolicy`,
      expected: `externalTrafficPolicy: Cluster, the default, on ${exposed.name}`,
      actual: exposed.policy,
      hint: `kubectl patch service ${exposed.name} -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`,
    })
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-MARK-MASQ', 'nat KUBE-POSTROUTING', 'nat POSTROUTING'],
    look: 'iptables -t nat -S | grep -E "KUBE-EXT|KUBE-MARK-MASQ|KUBE-POSTROUTING"',
    expected: 'a mark for what comes from outside, and the masquerade that obeys it',
  })
  const web = webService(snapshot)
  const asked = nodes.map((node) => {
    return { node, address: addressOf(snapshot, node.name), port: exposed.nodePort, times: REQUESTS }
  })
  if (!live) {
    for (const request of asked) mustMasqueradeByRules(request, web)
    return
  }
  const { statuses, logged } = await askAndReadLogs(live, web, asked)
  for (const [index, request] of asked.entries()) mustAllBeAnswered(request, statuses[index] ?? [])
  for (const request of logged) mustLogTheNode(asked[request.index], request)
  if (logged.some(({ index, backend }) => asked[index]?.node.name !== backend.node)) return
  fail({
    look: 'kubectl logs -l app=web --prefix --tail=8',
    expected: 'requests that a node passed on to a Pod on another one',
    actual: `all of ${logged.length} requests stayed on the node that was asked`,
  })
}

function mustAllBeAnswered(request: Asked, statuses: readonly number[]): void {
  const good = statuses.filter((status) => status === 200).length
  if (good === request.times) return
  fail({
    node: request.node.name,
    look: asTyped(request),
    expected: `${request.times} answers to ${request.times} requests from outside`,
    actual: `${good}`,
    differences: traceLine(request.node, { outside: SOMEBODY_OUTSIDE }, request),
  })
}

function mustLogTheNode(asked: Asked | undefined, { backend, client }: LoggedRequest): void {
  const own = asked?.node.state.links.flatMap((link) => link.addresses.map(({ address }) => address)) ?? []
  if (!asked || own.includes(client)) return
  fail({
    node: asked.node.name,
    look: 'kubectl logs -l app=web --prefix --tail=4',
    expected: `an address of ${asked.node.name} as the client in the log of ${backend.pod}`,
    actual: `${client}, which is none`,
    differences: traceLine(asked.node, { outside: SOMEBODY_OUTSIDE }, asked),
  })
}

function mustMasqueradeByRules(asked: Asked, { backends }: WebService): void {
  const { node, address, port } = asked
  const wanted = backends.map((backend) => backend.address).sort()
  const end = tracedTo(node, { outside: SOMEBODY_OUTSIDE }, { address, port })
  if (end.masqueraded && [...new Set(end.backends)].sort().join() === wanted.join()) return
  fail({
    node: node.name,
    look: onNode(node.name, 'iptables -t nat -S | grep -E "KUBE-EXT|KUBE-MARK-MASQ"'),
    expected: `a packet from outside at ${wanted.join(' or ')}, with its source replaced`,
    actual: end.text,
  })
}
