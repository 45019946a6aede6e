import { targetOf } from '../../dataplane/rule-text.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { tracedTo, traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { addressOf, mustBeWrittenEverywhere, nodePortService } from './exposed-service.ts'
import { askFromOutside, asTyped, SOMEBODY_OUTSIDE } from './outside-requests.ts'

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
  if (nodePort < RANGE.first || nodePort > RANGE.last)
    fail({
      look: `kubectl get service ${name}`,
      expected: `a node port from ${RANGE.first} to ${RANGE.last}`,
      actual: String(nodePort),
    })
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  for (const node of nodes) mustAskNodePortsLast(node)
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES', `nat ${NODE_PORTS}`],
    look: `iptables -t nat -S ${NODE_PORTS}`,
    expected: `a rule for port ${nodePort} in ${NODE_PORTS}, and the chains that it leads to`,
  })
  const requests = nodes.map((node) => ({ node, address: addressOf(snapshot, node.name), port: nodePort }))
  const statuses = live && (await askFromOutside(live, requests))
  for (const [index, { node, ...request }] of requests.entries()) {
    const status = statuses?.[index]?.[0]
    const end = tracedTo(node, { outside: SOMEBODY_OUTSIDE }, request)
    if (statuses ? status === 200 : end.backends.some((backend) => backend !== request.address)) continue
    fail({
      node: node.name,
      look: live ? asTyped(request) : `make trace FROM=external:${SOMEBODY_OUTSIDE} TO=${request.address}:${nodePort}`,
      expected: `an answer on port ${nodePort} of every node, asked from outside the cluster`,
      actual: live ? `${node.name} gave ${status ? `status ${status}` : 'no answer'}` : end.text,
      ...(live ? { differences: traceLine(node, { outside: SOMEBODY_OUTSIDE }, request) } : {}),
      ...(exposed.policy === 'Local'
        ? { hint: `${name} has externalTrafficPolicy Local: this step needs it to be Cluster.` }
        : {}),
    })
  }
}

function mustAskNodePortsLast({ name, state }: NodeView): void {
  const rules = state.iptables.get('nat')?.get('KUBE-SERVICES')?.rules ?? []
  const place = rules.findIndex(({ spec }) => targetOf(spec) === NODE_PORTS)
  if (place !== -1 && place === rules.length - 1) return
  fail({
    node: name,
    look: onNode(name, 'iptables -t nat -S KUBE-SERVICES | tail -n 2'),
    expected: `the jump to ${NODE_PORTS} as the last rule of KUBE-SERVICES`,
    actual: place === -1 ? 'no such jump' : `it is rule ${place + 1} of ${rules.length}`,
    why: 'A ClusterIP or a load balancer address must have its turn before "any address of this node" does.',
    differences: [
      {
        kind: place === -1 ? 'missing' : 'wrong',
        text: `${NODE_PORTS} is not asked last`,
        expected: `-A KUBE-SERVICES … -m addrtype --dst-type LOCAL -j ${NODE_PORTS}`,
      },
    ],
  })
}
