import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { tracedTo, traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { askAndReadLogs, type LoggedRequest } from './access-log.ts'
import { addressOf, localService, mustBeWrittenEverywhere } from './exposed-service.ts'
import {
  addressesOutside,
  askFromOutside,
  asTyped,
  DROPPED_SECONDS,
  type Request,
  SOMEBODY_OUTSIDE,
} from './outside-requests.ts'

const REQUESTS = 4

interface Asked extends Request {
  node: NodeView
  /** The backends on this node. */
  local: string[]
}

/**
 * Under externalTrafficPolicy Local a node answers with its own Pods, which see the real client, and drops what comes when it has
 * none.
 */
export async function clientIsKept({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = localService(snapshot)
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-NODEPORTS', 'filter KUBE-EXTERNAL-SERVICES'],
    look: 'iptables-save | grep -E "KUBE-SVL|KUBE-EXT|no local endpoints"',
    expected: "this node's own Pods, or a DROP where it has none, behind the chain for traffic from outside",
  })
  const web = webService(snapshot)
  const asked = nodes.map((node): Asked => {
    const local = web.backends.filter((backend) => backend.node === node.name).map(({ address }) => address)
    const place = { address: addressOf(snapshot, node.name), port: exposed.nodePort }
    return local.length > 0
      ? { node, local, ...place, times: REQUESTS }
      : { node, local, ...place, seconds: DROPPED_SECONDS }
  })
  if (!live) {
    for (const request of asked) mustStayByRules(request)
    return
  }
  const [outside, { statuses, logged }] = await Promise.all([addressesOutside(live), askAndReadLogs(live, web, asked)])
  for (const [index, request] of asked.entries()) mustAnswerWithItsOwn(request, statuses[index] ?? [])
  for (const request of logged) mustLogTheClient(asked[request.index], request, outside.own)
}

function mustAnswerWithItsOwn(asked: Asked, statuses: readonly number[]): void {
  const good = statuses.filter((status) => status === 200).length
  if (good === (asked.local.length > 0 ? asked.times : 0)) return
  fail({
    node: asked.node.name,
    look: asTyped(asked),
    expected:
      asked.local.length > 0
        ? `${asked.times} answers to ${asked.times} requests from outside: ${asked.node.name} has Pods of its own`
        : `no answer: ${asked.node.name} has no Pod of web`,
    actual: good === 0 ? 'no answer' : `${good} answers`,
    differences: traceLine(asked.node, { outside: SOMEBODY_OUTSIDE }, asked),
  })
}

function mustLogTheClient(asked: Asked | undefined, { backend, client }: LoggedRequest, real: string): void {
  if (!asked || (client === real && backend.node === asked.node.name)) return
  fail({
    node: asked.node.name,
    look: 'kubectl logs -l app=web --prefix --tail=4',
    expected: `${real}, the client outside, in the log of a Pod on ${asked.node.name}`,
    actual: `${client} in the log of ${backend.pod} on ${backend.node}`,
    differences: traceLine(asked.node, { outside: SOMEBODY_OUTSIDE }, asked),
  })
}

function mustStayByRules({ node, local, address, port }: Asked): void {
  const end = tracedTo(node, { outside: SOMEBODY_OUTSIDE }, { address, port })
  if (!end.masqueraded && [...new Set(end.backends)].sort().join() === local.toSorted().join()) return
  fail({
    node: node.name,
    look: onNode(node.name, 'iptables-save | grep -E "KUBE-SVL|KUBE-EXT|no local endpoints"'),
    expected:
      local.length > 0
        ? `a packet from outside at ${local.join(' or ')}, its source kept`
        : 'a packet from outside dropped',
    actual: end.text,
  })
}

/** The health check port tells a load balancer, node by node: 200 where the Service has Pods, 503 where it has none. */
export async function healthPortTells({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { name, service } = localService(snapshot)
  const port = service.healthCheckNodePort
  if (port === 0)
    fail({
      look: `kubectl get service ${name} -o yaml | grep healthCheckNodePort`,
      expected: `a healthCheckNodePort on ${name}`,
      actual: 'none',
    })
  expectNodes(nodes)
    .chains('filter KUBE-NODEPORTS', 'filter INPUT')
    .equalPrediction('iptables', `a rule that lets health checks in on port ${port}`, {
      look: 'iptables -S KUBE-NODEPORTS',
    })
  if (!live) return
  const { backends } = webService(snapshot)
  const requests = nodes.map((node) => ({ node, address: addressOf(snapshot, node.name), port, seconds: 2 }))
  const statuses = await askFromOutside(live, requests)
  for (const [index, request] of requests.entries()) {
    const pods = backends.filter(({ node }) => node === request.node.name).length
    const status = statuses[index]?.[0]
    const wanted = pods > 0 ? 200 : 503
    if (status === wanted) continue
    fail({
      node: request.node.name,
      look: asTyped(request),
      expected: `status ${wanted}: ${request.node.name} has ${pods === 0 ? 'no Pod' : pods === 1 ? 'one Pod' : `${pods} Pods`} of web`,
      actual: status ? `status ${status}` : 'no answer',
    })
  }
}
