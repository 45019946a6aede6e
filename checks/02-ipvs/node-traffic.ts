import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectAnswered, expectWithin } from '../../grading/expect-traffic.ts'
import { expectNone, expectThat, Trouble } from '../../grading/failure.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import { type NodeView, nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { personalise, variantIn } from '../../grading/variant.ts'
import { webService } from '../../grading/web-service.ts'
import { outputLeadsToMark } from './equality.ts'
import {
  CLIENT,
  clientPod,
  listConnections,
  loggedRequests,
  newToken,
  parseConnections,
  parseMarked,
  readMarked,
  requestsOnOneConnection,
  separateRequests,
  watchMarked,
} from './web-requests.ts'

/** Other connections and kube-proxy's syncs disturb a counter; it is read up to this often. */
const ATTEMPTS = 4

/**
 * OUTPUT and the mark equal the prediction; a request from a node increases the marking rule's counter, one from a Pod does
 * not.
 */
export async function requestFromNodeIsMarked(context: CheckContext): Promise<void> {
  outputLeadsToMark(context)
  const { live, snapshot } = context
  if (!live) return
  const service = webService(snapshot)
  const { node } = clientPod(context)
  const measure = async () => {
    const fromNode = await watchMarked(live, node, separateRequests(service, newToken(), 1))
    if (!fromNode) throw new Trouble(`the counters of ${node} could not be read`)
    const sent = { snapshot, node, sender: 'node', target: service } as const
    expectAnswered(readReplies(fromNode.output), 1, sent, { expected: 'an answer to a request of the node itself' })
    const fromPod = await live.inPod(CLIENT, separateRequests(service, newToken(), 1))
    const [last] = parseMarked((await live.onNode(node, readMarked())).stdout)
    if (readReplies(fromPod.stdout)[0]?.status !== 200 || last === undefined) return { actual: 'the Pod got no answer' }
    const byNode = fromNode.after - fromNode.before
    const byPod = last - fromNode.after
    if (byNode === 1 && byPod === 0) return
    return { actual: `the counter moved by ${byNode} for the node's request and by ${byPod} for the Pod's` }
  }
  await expectWithin(ATTEMPTS, measure, {
    node,
    inspect: onNode(node, 'iptables -t nat -nvL KUBE-SERVICES'),
    expected: "one packet more on the KUBE-MARK-MASQ rule for the node's request, none for the Pod's",
  })
}

/**
 * A request from a node reaches each backend with the node's address on the route to that backend. On a capture, the packet
 * is traced through the recorded rules.
 */
export async function sourceIsEgressAddress({ live, snapshot, nodes }: CheckContext): Promise<void> {
  const service = webService(snapshot)
  const backends = service.backends.map(({ address }) => address).sort()
  if (!live)
    return expectNodes(nodes).packetReaches(
      'node',
      service,
      { backends, masqueraded: true },
      {
        inspect: (node) => `make trace FROM=host TO=svc/${service.name}:${service.port} NODE=${node}`,
        expected: `the node's own packet at ${backends.join(' or ')}, with its source replaced`,
      },
    )
  // A node with a backend shows both: an address of the Pod network for its own backend, the node's for the other.
  const node = service.backends[0]?.node ?? nodes[0]?.name ?? ''
  const token = newToken()
  const times = Math.max(4, service.backends.length * 2)
  const routes = service.backends.map(({ address }) => `ip -o route get ${address}`).join('; ')
  const { stdout } = await live.onNode(node, `${routes}; ${separateRequests(service, token, times)}`)
  const answers = readReplies(stdout)
  expectAnswered(
    answers,
    times,
    { snapshot, node, sender: 'node', target: service },
    {
      expected: `${times} answers to ${times} requests of the node itself`,
      hint: 'The answer to a request that is not masqueraded does not return: look at KUBE-MARK-MASQ and KUBE-POSTROUTING.',
    },
  )
  const sources = new Map(
    [...stdout.matchAll(/^(\S+) .*\bsrc (\S+)/gm)].map(([, backend = '', source = '']) => [backend, source]),
  )
  for (const { backend, client } of await loggedRequests(live, service, token, times)) {
    const expected = sources.get(backend)
    expectThat(client === expected, {
      node,
      inspect: 'kubectl logs -l app=web --prefix --tail=4',
      expected: `${expected} as the client in the log of ${backend}, the address of the interface toward it`,
      actual: `${backend} saw ${client}`,
    })
  }
}

const REQUESTS = 10

/** Ten requests over one connection: one connection in IPVS, and one packet on the rule. */
export async function rulesSeeFirstPacketOnly({ live, snapshot, nodes }: CheckContext): Promise<void> {
  if (!live) throw new Trouble('no cluster to send requests in')
  const service = webService(snapshot)
  const node = nodes.at(-1)?.name ?? ''
  const measure = async () => {
    const script = `${requestsOnOneConnection(service, newToken(), REQUESTS)}; ${listConnections}`
    const change = await watchMarked(live, node, script)
    if (!change) throw new Trouble(`the counters of ${node} could not be read`)
    const answers = readReplies(change.output)
    const connects = answers.reduce((total, { connects }) => total + connects, 0)
    const good = answers.filter(({ status }) => status === 200).length
    const rules = change.after - change.before
    const ports = new Set(answers.map(({ port }) => port))
    const held = parseConnections(change.output, service).filter(({ clientPort }) => ports.has(clientPort)).length
    if (good === REQUESTS && connects === 1 && rules === 1 && held === 1) return
    const actual = `${good} answers over ${connects} connections: ${rules} packets on the rule, ${held} connections in IPVS`
    // Other traffic can only disturb counters; a failed request will fail again.
    if (good === REQUESTS) return { actual }
    return { actual, isFinal: true, differences: traceLine(snapshot.node(node), 'node', service) }
  }
  await expectWithin(ATTEMPTS, measure, {
    node,
    inspect: onNode(node, `iptables -t nat -nvL KUBE-SERVICES; ipvsadm -Lnc`),
    expected: `${REQUESTS} answers over 1 connection: 1 packet on the rule, 1 connection in IPVS`,
  })
}

/** The learner's NodePort Service has a virtual server per node address and answers on every node. */
export async function nodePortAnswers({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const service = objectsOf(snapshot).services.find(isLearners)
  const nodePort = service?.ports.find((port) => port.nodePort > 0)?.nodePort
  expectThat(service && nodePort !== undefined, {
    inspect: 'kubectl get services',
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
  expectNodes(nodes).virtualServerAt((node) => nodeAddressOf(snapshot, node.name), nodePort)
  if (live) await mustAnswerEverywhere(live, snapshot, nodePort)
  else
    for (const { node, from } of askedByNext(nodes))
      expectNode(node).packetFromOutsideReachesBackend(
        nodeAddressOf(snapshot, from),
        { address: nodeAddressOf(snapshot, node.name), port: nodePort },
        { expected: `the packet to port ${nodePort} of ${node.name} at a backend of ${service.name}` },
      )
}

/** Each node with the next one, which sends the request: a node's request to its own address would not traverse INPUT. */
const askedByNext = (nodes: readonly NodeView[]) =>
  nodes.map((node, index) => ({ node, from: nodes[(index + 1) % nodes.length]?.name ?? node.name }))

const NO_REPLY = { error: 'none', status: 0 }
/** Enough requests for each backend, and to notice a loss of one packet in ten. */
const PORT_REQUESTS = 12
/** A busy machine that answers after 200 ms also causes TCP retransmissions, but hardly in each of this many series. */
const SERIES = 3

/** Requests each node's port from another node, until all packets of a series of requests arrive. */
async function mustAnswerEverywhere(live: LiveCluster, snapshot: Snapshot, nodePort: number): Promise<void> {
  await Promise.all(
    askedByNext(snapshot.nodes).map(async ({ node, from }) => {
      const address = nodeAddressOf(snapshot, node.name)
      const sender = { outside: nodeAddressOf(snapshot, from) }
      let resent = 0
      const measure = async () => {
        const { stdout } = await live.onNode(from, httpRequests([{ address, port: nodePort, times: PORT_REQUESTS }]))
        const replies = readReplies(stdout)
        const bad = replies.length === 0 ? NO_REPLY : replies.find(({ status }) => status === 0 || status >= 400)
        expectNone(bad, ({ error, status }) => ({
          node: node.name,
          inspect: onNode(from, `curl -sS --fail --max-time 3 http://${address}:${nodePort}/`),
          expected: `an answer on port ${nodePort} of ${node.name} to each of ${PORT_REQUESTS} requests from ${from}`,
          actual: `${error || `status ${status}`}, to request ${replies.length || 1}`,
          differences: traceLine(node, sender, { address, port: nodePort }),
        }))
        const again = replies.reduce((sum, reply) => sum + reply.resent, 0)
        if (again === 0) return
        resent += again
        const sent = SERIES * PORT_REQUESTS
        return { actual: `${resent} packets of ${sent} requests had to be sent again: some packets are lost` }
      }
      await expectWithin(SERIES, measure, {
        node: node.name,
        inspect: onNode(from, 'nstat -az TcpRetransSegs'),
        expected: `that the packets of ${PORT_REQUESTS} requests from ${from} to port ${nodePort} of ${node.name} arrive`,
        hint: `Look on ${node.name}, ${from} and the nodes of the backends for what drops packets: tc qdisc show, tc filter show, iptables-save, ip -s link.`,
      })
    }),
  )
}

const isLearners = (service: Service) =>
  service.namespace === 'default' && service.type === 'NodePort' && service.ports.some((port) => port.nodePort > 0)
