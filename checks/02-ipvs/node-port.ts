import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
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

/** So many that each of a few backends gets some, and that a packet of ten that is lost is one of theirs. */
const REQUESTS = 12
/** A machine too busy to answer within 200 ms makes TCP send again, too, but hardly in each of so many series. */
const SERIES = 3

/** Requests each node's port from another node, until all packets of a series of requests arrive. */
async function mustAnswerEverywhere(live: LiveCluster, snapshot: Snapshot, nodePort: number): Promise<void> {
  await Promise.all(
    askedByNext(snapshot.nodes).map(async ({ node, from }) => {
      const address = addressOf(snapshot, node.name)
      const sender = { outside: addressOf(snapshot, from) }
      let resent = 0
      for (let series = 1; series <= SERIES; series++) {
        const { stdout } = await live.onNode(from, httpRequests([{ address, port: nodePort, times: REQUESTS }]))
        const replies = readReplies(stdout)
        const bad = replies.find(({ status }) => status === 0 || status >= 400)
        if (bad || replies.length === 0)
          fail({
            node: node.name,
            look: onNode(from, `curl -sS --fail --max-time 3 http://${address}:${nodePort}/`),
            expected: `an answer on port ${nodePort} of ${node.name} to each of ${REQUESTS} requests from ${from}`,
            actual: `${bad?.error || (bad ? `status ${bad.status}` : 'none')}, to request ${replies.length || 1}`,
            differences: traceLine(node, sender, { address, port: nodePort }),
          })
        const again = replies.reduce((sum, reply) => sum + reply.resent, 0)
        if (again === 0) return
        resent += again
      }
      fail({
        node: node.name,
        look: onNode(from, 'nstat -az TcpRetransSegs'),
        expected: `that the packets of ${REQUESTS} requests from ${from} to port ${nodePort} of ${node.name} arrive`,
        actual: `${resent} packets of ${SERIES * REQUESTS} requests had to be sent again: a part of them is lost`,
        hint: `Look on ${node.name}, ${from} and the nodes of the backends for what drops packets: tc qdisc show, tc filter show, iptables-save, ip -s link.`,
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
