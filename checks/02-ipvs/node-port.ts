import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { httpRequest } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { tracedTo, traceLine } from '../../grading/packet-trace.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { personalise, variantIn } from '../../grading/variant.ts'

/** A NodePort Service of the learner's has a virtual server per node address and answers on every node. */
export async function nodePortAnswers({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const service = snapshot.objects.services.find(isLearners)
  const nodePort = service?.ports.find((port) => port.nodePort > 0)?.nodePort
  if (!service || nodePort === undefined)
    fail({
      look: 'kubectl get services',
      expected: 'a Service of type NodePort in the default namespace',
      actual: 'no Service with a node port',
      hint: personalise('kubectl expose deployment web --name web-np --type NodePort --port 80', variantIn(snapshot)),
    })
  expectNodes(nodes)
    .virtualServers(nodePort)
    .and(expectNodes(nodes).sets('KUBE-NODE-PORT-TCP'))
    .equalPrediction(
      'ipvs',
      `a virtual server for port ${nodePort} on every address of the node, and the port in KUBE-NODE-PORT-TCP`,
    )
  const internalIP = (node: NodeView) => snapshot.objects.nodes.find(({ name }) => name === node.name)?.internalIPs[0]
  expectNodes(nodes).virtualServerAt(internalIP, nodePort)
  if (live) await mustAnswerEverywhere(live, snapshot, nodePort)
  else mustReachByRules(snapshot, service, nodePort)
}

const addressOf = ({ objects }: Snapshot, node: string) =>
  objects.nodes.find(({ name }) => name === node)?.internalIPs[0] ?? node

/** A node, and the next one, which asks it: a request to the node's own address would not pass its INPUT. */
const askedByNext = (nodes: Snapshot['nodes']) =>
  nodes.map((node, index) => ({ node, from: nodes[(index + 1) % nodes.length]?.name ?? node.name }))

/** Requests each node's port from another node. */
async function mustAnswerEverywhere(live: LiveCluster, snapshot: Snapshot, nodePort: number): Promise<void> {
  await Promise.all(
    askedByNext(snapshot.nodes).map(async ({ node, from }) => {
      const address = addressOf(snapshot, node.name)
      const { exitCode, stderr } = await live.onNode(from, httpRequest(address, nodePort))
      if (exitCode === 0) return
      fail({
        node: node.name,
        look: onNode(from, `curl -sS --fail --max-time 3 http://${address}:${nodePort}/`),
        expected: `an answer on port ${nodePort} of ${node.name}, asked from ${from}`,
        actual: stderr.trim().split('\n')[0] || 'none',
        differences: traceLine(node, { outside: addressOf(snapshot, from) }, { address, port: nodePort }),
      })
    }),
  )
}

/** By the rules of each node, a packet from another node to its port reaches a backend. */
function mustReachByRules(snapshot: Snapshot, service: Service, nodePort: number): void {
  for (const { node, from } of askedByNext(snapshot.nodes)) {
    const address = addressOf(snapshot, node.name)
    const end = tracedTo(node, { outside: addressOf(snapshot, from) }, { address, port: nodePort })
    if (end.backends.some((backend) => backend !== address)) continue
    fail({
      node: node.name,
      look: `make trace FROM=external:${addressOf(snapshot, from)} TO=${address}:${nodePort} NODE=${node.name}`,
      expected: `the packet to port ${nodePort} of ${node.name} at a backend of ${service.name}`,
      actual: end.text,
    })
  }
}

const isLearners = (service: Service) =>
  service.namespace === 'default' && service.type === 'NodePort' && service.ports.some((port) => port.nodePort > 0)
