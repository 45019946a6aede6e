import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectField } from '../../grading/expect-object.ts'
import { addressOf, mustBeWrittenEverywhere, nodePortService } from './exposed-service.ts'
import { askFromOutside, expectFromOutside, SOMEBODY_OUTSIDE } from './outside-requests.ts'

/** `--service-node-port-range` of the API server, unless somebody chose another. */
const RANGE = { first: 30000, last: 32767 }
const NODE_PORTS = 'KUBE-NODEPORTS'

/**
 * The node port is out of the range, KUBE-NODEPORTS is asked last of all in KUBE-SERVICES, and every node answers a client outside,
 * with or without a Pod of its own.
 */
export async function nodePortAnswersEverywhere({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = nodePortService(snapshot)
  const { name, nodePort } = exposed
  expectField(`service ${name}`, 'nodePort', {
    holds: nodePort >= RANGE.first && nodePort <= RANGE.last,
    expected: `a node port from ${RANGE.first} to ${RANGE.last}`,
    actual: String(nodePort),
  })
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat KUBE-SERVICES').jumpsLastTo(NODE_PORTS, {
    why: 'A ClusterIP or a load balancer address must have its turn before "any address of this node" does.',
  })
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES', `nat ${NODE_PORTS}`],
    look: `iptables -t nat -S ${NODE_PORTS}`,
    expected: `a rule for port ${nodePort} in ${NODE_PORTS}, and the chains that it leads to`,
  })
  const requests = nodes.map((node) => ({ node, address: addressOf(snapshot, node.name), port: nodePort }))
  const words = {
    expected: `an answer on port ${nodePort} of every node, asked from outside the cluster`,
    ...(exposed.policy === 'Local' && {
      hint: `${name} has externalTrafficPolicy Local: this step needs it to be Cluster.`,
    }),
  }
  if (!live) {
    for (const { node, ...target } of requests)
      expectNode(node).packetFromOutsideReachesBackend(SOMEBODY_OUTSIDE, target, words)
    return
  }
  const statuses = await askFromOutside(live, requests)
  for (const [index, request] of requests.entries())
    expectFromOutside(request, statuses[index] ?? [], { times: 1, ...words })
}
