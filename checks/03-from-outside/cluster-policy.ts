import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { expectLogged } from '../../grading/expect-traffic.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { askAndReadLogs } from './access-log.ts'
import { addressOf, expectPolicy, mustBeWrittenEverywhere, nodePortService } from './exposed-service.ts'
import { expectFromOutside, SOMEBODY_OUTSIDE, tracedFrom } from './outside-requests.ts'

/** To each node so many, so that some surely go to a Pod elsewhere. */
const REQUESTS = 6

/**
 * Under externalTrafficPolicy Cluster a node passes requests on to Pods elsewhere, and no Pod sees who asked: each logs an address of
 * the node that was asked.
 */
export async function clientIsLost({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = nodePortService(snapshot)
  expectPolicy(exposed, 'Cluster')
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
    const backends = web.backends.map((backend) => backend.address).sort()
    for (const { node, ...target } of asked)
      expectNode(node).packetReaches(
        { outside: SOMEBODY_OUTSIDE },
        target,
        { backends, masqueraded: true },
        { look: (name) => onNode(name, 'iptables -t nat -S | grep -E "KUBE-EXT|KUBE-MARK-MASQ"') },
      )
    return
  }
  const { statuses, logged } = await askAndReadLogs(live, web, asked)
  for (const [index, request] of asked.entries())
    expectFromOutside(request, statuses[index] ?? [], {
      times: REQUESTS,
      expected: `${REQUESTS} answers to ${REQUESTS} requests from outside`,
    })
  expectLogged(
    logged,
    ({ index, client }) => asked[index] === undefined || ownAddresses(asked[index].node).includes(client),
    ({ index, backend, client }) => ({
      node: asked[index]?.node.name ?? '',
      expected: `an address of ${asked[index]?.node.name} as the client in the log of ${backend.pod}`,
      actual: `${client}, which is none`,
      ...tracedFrom(asked[index]),
    }),
  )
  expectFound(
    logged.find(({ index, backend }) => asked[index]?.node.name !== backend.node),
    {
      look: 'kubectl logs -l app=web --prefix --tail=8',
      expected: 'requests that a node passed on to a Pod on another one',
      actual: `all of ${logged.length} requests stayed on the node that was asked`,
    },
  )
}

const ownAddresses = ({ state }: NodeView) =>
  state.links.flatMap((link) => link.addresses.map(({ address }) => address))
