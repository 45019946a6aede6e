import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectField } from '../../grading/expect-object.ts'
import { expectLogged } from '../../grading/expect-traffic.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { askAndReadLogs } from './access-log.ts'
import { addressOf, localService, mustBeWrittenEverywhere } from './exposed-service.ts'
import {
  addressesOutside,
  askFromOutside,
  DROPPED_SECONDS,
  expectFromOutside,
  type Request,
  SOMEBODY_OUTSIDE,
  tracedFrom,
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
    for (const { node, local, ...target } of asked)
      expectNode(node).packetReaches(
        { outside: SOMEBODY_OUTSIDE },
        target,
        { backends: local, masqueraded: false },
        { look: (name) => onNode(name, 'iptables-save | grep -E "KUBE-SVL|KUBE-EXT|no local endpoints"') },
      )
    return
  }
  const [outside, { statuses, logged }] = await Promise.all([addressesOutside(live), askAndReadLogs(live, web, asked)])
  for (const [index, request] of asked.entries()) {
    const { name } = request.node
    expectFromOutside(
      request,
      statuses[index] ?? [],
      request.local.length > 0
        ? {
            times: REQUESTS,
            expected: `${REQUESTS} answers to ${REQUESTS} requests from outside: ${name} has Pods of its own`,
          }
        : { times: 0, expected: `no answer: ${name} has no Pod of web` },
    )
  }
  expectLogged(
    logged,
    ({ index, backend, client }) => client === outside.own && backend.node === asked[index]?.node.name,
    ({ index, backend, client }) => ({
      node: asked[index]?.node.name ?? '',
      expected: `${outside.own}, the client outside, in the log of a Pod on ${asked[index]?.node.name}`,
      actual: `${client} in the log of ${backend.pod} on ${backend.node}`,
      ...tracedFrom(asked[index]),
    }),
  )
}

/** The health check port tells a load balancer, node by node: 200 where the Service has Pods, 503 where it has none. */
export async function healthPortTells({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { name, service } = localService(snapshot)
  const port = service.healthCheckNodePort
  expectField(`service ${name}`, 'healthCheckNodePort', {
    holds: port > 0,
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
    const { name } = request.node
    const status = pods > 0 ? 200 : 503
    const expected = `status ${status}: ${name} has ${pods === 0 ? 'no Pod' : pods === 1 ? 'one Pod' : `${pods} Pods`} of web`
    expectFromOutside(request, statuses[index] ?? [], { times: 1, status, expected })
  }
}
