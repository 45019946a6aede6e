// Lab 2: requests of Pods and nodes through IPVS, observed in its connection list, the counters of
// rules, conntrack and access logs.

import { parseConntrack } from '../../dataplane/conntrack.ts'
import type { CheckContext, LiveContext } from '../../grading/check-context.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { type WebService, webService } from '../../grading/expect-object.ts'
import { expectOnNode, fail, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { packetsOn } from '../../grading/packet-counters.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import {
  answersIn,
  expectAnswers,
  fromNode,
  type PodRequester,
  sendRequests,
  typedRequest,
} from '../../grading/requests.ts'
import { type NodeView, nodeAddressOf, type Snapshot } from '../../grading/snapshot.ts'
import { expectLogged, expectWithin } from '../../grading/traffic.ts'
import { nodePortService } from '../03-from-outside/exposed-service.ts'
import { clientPod } from '../web-client.ts'
import { outputLeadsToMark } from './equality.ts'

/**
 * The packets on the rule that marks packets from outside the Pod network. kube-proxy zeroes its
 * counter at each sync.
 */
const markedOn = async (live: LiveCluster, node: string): Promise<number> =>
  (await packetsOn(live, node, ['nat', 'KUBE-SERVICES'], (spec) =>
    /KUBE-CLUSTER-IP.*-j KUBE-MARK-MASQ$/.test(spec),
  )) ?? 0

interface IpvsConnection {
  client: string
  clientPort: number
  backend: string
}

/**
 * The connections of IPVS are up to date, while `ipvsadm --stats` is updated only every two
 * seconds.
 */
const LIST_CONNECTIONS = 'ipvsadm -Lnc'
const CONNECTION = /^(?:TCP|UDP|SCTP)\s+\S+\s+\S+\s+([\d.]+):(\d+)\s+(\S+)\s+([\d.]+):\d+$/gm

/** The connections toward a Service in the output of `ipvsadm -Lnc`. */
export function parseConnections(
  stdout: string,
  { address, port }: Pick<WebService, 'address' | 'port'>,
): IpvsConnection[] {
  return [...stdout.matchAll(CONNECTION)]
    .filter(([, , , virtual]) => virtual === `${address}:${port}`)
    .map(([, client = '', clientPort, , backend = '']) => ({
      client,
      clientPort: Number(clientPort),
      backend,
    }))
}

/** Other connections and kube-proxy's syncs disturb a counter; it is read up to this often. */
const ATTEMPTS = 4

/**
 * OUTPUT and the mark equal the prediction; a request from a node increases the marking rule's
 * counter, one from a Pod does not.
 */
export async function requestFromNodeIsMarked(context: CheckContext): Promise<void> {
  outputLeadsToMark(context)
  const { live, snapshot } = context
  if (!live) return
  const target = webService(snapshot)
  const client = clientPod(context, '02-ipvs')
  const { node } = client
  const measure = async () => {
    const before = await markedOn(live, node)
    await expectAnswers(context, live, fromNode(node), target, 1, {
      expected: 'an answer to a request of the node itself',
    })
    const between = await markedOn(live, node)
    const [byClient] = await sendRequests(live, client, [target])
    if (!byClient || answersIn(byClient).length === 0) return { actual: 'the Pod got no answer' }
    const [byNode, byPod] = [between - before, (await markedOn(live, node)) - between]
    if (byNode === 1 && byPod === 0) return
    return {
      actual: `the counter moved by ${byNode} for the node's request and by ${byPod} for the Pod's`,
    }
  }
  await expectWithin(ATTEMPTS, measure, {
    node,
    inspect: onNode(node, 'iptables -t nat -nvL KUBE-SERVICES'),
    expected:
      "one packet more on the KUBE-MARK-MASQ rule for the node's request, none for the Pod's",
  })
}

/**
 * A node's request reaches each backend with the node's address on the route to it; a capture's
 * packet is traced instead.
 */
export async function sourceIsEgressAddress(context: CheckContext): Promise<void> {
  const { live, snapshot, nodes } = context
  const service = webService(snapshot)
  const backends = service.backends.map(({ address }) => address)
  if (!live)
    return expectNodes(nodes).packetReaches('node', service, { backends, masqueraded: true })
  // A node with a backend shows both: an address of the Pod network for its own backend, the node's
  // for the other.
  const node = service.backends[0]?.node ?? nodes[0]?.name ?? ''
  const times = Math.max(4, backends.length * 2)
  const { logged } = await expectAnswers(context, live, fromNode(node), service, times, {
    expected: `${times} answers to ${times} requests of the node itself`,
    hint: 'The answer to a request that is not masqueraded does not return: look at KUBE-MARK-MASQ and KUBE-POSTROUTING.',
  })
  const { stdout } = await live.readOnNode(
    node,
    backends.map((address) => `ip -o route get ${address}`).join('; '),
  )
  const routes = [...stdout.matchAll(/^(\S+) .*\bsrc (\S+)/gm)]
  const sources = new Map(routes.map(([, backend = '', source = '']) => [backend, source]))
  expectLogged(
    await logged(),
    ({ backend, client }) => client === sources.get(backend.address),
    ({ backend: { address }, client }) => ({
      node,
      expected: `${sources.get(address)} as the client in the log of ${address}, the address of the interface toward it`,
      actual: `${address} saw ${client}`,
    }),
  )
}

const REQUESTS_ON_ONE_CONNECTION = 10

/** Ten requests over one connection: one connection in IPVS, and one packet on the rule. */
export async function rulesSeeFirstPacketOnly({
  live,
  snapshot,
  nodes,
}: LiveContext): Promise<void> {
  const service = webService(snapshot)
  const node = nodes.at(-1)?.name ?? ''
  const requests = [{ ...service, times: REQUESTS_ON_ONE_CONNECTION, keep: true }]
  const measure = async () => {
    const before = await markedOn(live, node)
    const [sent = { replies: [] }] = await sendRequests(live, fromNode(node), requests)
    const { stdout } = await live.onNode(node, LIST_CONNECTIONS)
    const packets = (await markedOn(live, node)) - before
    const connects = sent.replies.reduce((total, { connects }) => total + connects, 0)
    const good = answersIn(sent).length
    const ports = new Set(sent.replies.map(({ port }) => port))
    const kept = parseConnections(stdout, service).filter(({ clientPort }) =>
      ports.has(clientPort),
    ).length
    const isGood = good === REQUESTS_ON_ONE_CONNECTION
    if (isGood && connects === 1 && packets === 1 && kept === 1) return
    const actual = `${good} answers over ${connects} connections: ${packets} packets on the rule, ${kept} connections in IPVS`
    // Other traffic can only disturb counters; a failed request will fail again.
    return isGood
      ? { actual }
      : { actual, isFinal: true, differences: traceLine(snapshot.node(node), 'node', service) }
  }
  await expectWithin(ATTEMPTS, measure, {
    node,
    inspect: onNode(node, `iptables -t nat -nvL KUBE-SERVICES; ${LIST_CONNECTIONS}`),
    expected: `${REQUESTS_ON_ONE_CONNECTION} answers over 1 connection: 1 packet on the rule, 1 connection in IPVS`,
  })
}

const POD_REQUESTS = 4

/**
 * Sends real requests from the client Pod. The ClusterIP is local to the node, IPVS lists each
 * connection, conntrack shows replies from a backend to the Pod, and the backends log the Pod's
 * address. On a capture, the packet is traced through the recorded rules instead.
 */
export async function requestFromPod(context: CheckContext): Promise<void> {
  const { live, snapshot } = context
  const service = webService(snapshot)
  const client = clientPod(context, '02-ipvs')
  const { node } = client
  const backends = service.backends.map(({ address }) => address)
  const reached = { backends, masqueraded: false }
  if (!live)
    return expectNode(snapshot.node(node)).packetReaches({ pod: client.address }, service, reached)
  // Reads only, but takes a quarter of the time of a round; a round without packets ends here.
  const route = await live.onNode(node, `ip -o route get ${service.address}`)
  expectOnNode(
    node,
    `ip route get ${service.address}`,
    route.stdout.includes(`local ${service.address}`),
    {
      expected: `that ${service.address} is delivered to the node itself (local)`,
      actual:
        route.stdout.split('\n').find((line) => line.includes(service.address)) ??
        route.stderr.trim(),
    },
  )
  const { replies, logged } = await expectAnswers(context, live, client, service, POD_REQUESTS)
  await expectListed(live, client, service, new Set(replies.map(({ port }) => port)))
  expectLogged(
    await logged(),
    (request) => request.client === client.address,
    (request) => ({
      node,
      expected: `${client.address}, the Pod's own address, as the client that the backend sees`,
      actual: `the backend ${request.backend.address} saw ${request.client}`,
      hint: 'Something masquerades traffic between Pods: compare clusterCIDR in the configuration of kube-proxy with the Pod network.',
    }),
  )
}

/**
 * IPVS and conntrack of the client's node list its connections from these ports, with replies of a
 * backend to the client.
 */
async function expectListed(
  live: LiveCluster,
  { node, address }: PodRequester,
  service: WebService,
  ports: ReadonlySet<number>,
): Promise<void> {
  const { stdout } = await live.onNode(
    node,
    `${LIST_CONNECTIONS}; conntrack -L -p tcp --orig-src ${address} --orig-dst ${service.address} 2>/dev/null`,
  )
  const own = parseConnections(stdout, service).filter(({ client }) => client === address)
  const kept = own.filter(({ clientPort }) => ports.has(clientPort)).length
  expectOnNode(node, LIST_CONNECTIONS, kept >= POD_REQUESTS, {
    expected: `${POD_REQUESTS} connections from ${address} to ${service.address}:${service.port} in IPVS`,
    actual: `${kept}: IPVS did not handle the requests`,
  })
  const tracked = stdout.split('\n').filter((line) => line.startsWith('tcp'))
  const flows = parseConntrack(tracked.join('\n')).filter(({ original }) =>
    ports.has(original.sourcePort ?? 0),
  )
  const list = `conntrack -L --orig-src ${address}`
  expectOnNode(node, list, flows.length > 0, {
    expected: 'tracked connections from the Pod to the ClusterIP',
    actual: 'none of the four that were just made',
    hint: 'net.ipv4.vs.conntrack must be 1 on the node; kube-proxy sets it when it starts in IPVS mode:',
    next: 'make ipvs FORCE=1',
  })
  const isBackend = (source: string) =>
    service.backends.some((backend) => backend.address === source)
  const other = flows.find(({ reply }) => !isBackend(reply.source) || reply.destination !== address)
  expectOnNode(node, list, !other, {
    expected: `replies from one of the backends to ${address}`,
    actual: `replies from ${other?.reply.source} to ${other?.reply.destination}`,
  })
}

/**
 * The learner's NodePort Service has a virtual server per node address and answers on every node.
 */
export async function nodePortAnswers({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { nodePort } = nodePortService(snapshot)
  expectNodes(nodes)
    .virtualServers(`:${nodePort}`)
    .and(expectNodes(nodes).sets('KUBE-NODE-PORT-TCP'))
    .equalPrediction(
      'ipvs',
      `a virtual server for port ${nodePort} on every address of the node, and the port in KUBE-NODE-PORT-TCP`,
    )
  if (live) return expectAnswersEverywhere(live, snapshot, nodePort)
  for (const { node, from } of askedByNext(nodes)) {
    const target = { address: nodeAddressOf(snapshot, node.name), port: nodePort }
    expectNode(node).packetReaches({ outside: nodeAddressOf(snapshot, from) }, target)
  }
}

/**
 * Each node with the next one, which sends the request: a node's request to its own address would
 * not traverse INPUT.
 */
const askedByNext = (nodes: readonly NodeView[]) =>
  nodes.map((node, index) => ({ node, from: nodes[(index + 1) % nodes.length]?.name ?? node.name }))

const NO_REPLY = { error: 'none', status: 0 }
/** Enough requests for each backend, and to notice a loss of one packet in ten. */
const PORT_REQUESTS = 12
/**
 * A busy machine that answers after 200 ms also causes TCP retransmissions, but hardly in each of
 * this many series.
 */
const SERIES = 3

/**
 * Requests each node's port from another node, until all packets of a series of requests arrive.
 */
async function expectAnswersEverywhere(
  live: LiveCluster,
  snapshot: Snapshot,
  nodePort: number,
): Promise<void> {
  await Promise.all(
    askedByNext(snapshot.nodes).map(async ({ node, from }) => {
      const target = { address: nodeAddressOf(snapshot, node.name), port: nodePort }
      const sender = { outside: nodeAddressOf(snapshot, from) }
      let resent = 0
      const measure = async () => {
        const [{ replies } = { replies: [] }] = await sendRequests(live, fromNode(from), [
          { ...target, times: PORT_REQUESTS },
        ])
        const bad =
          replies.length === 0
            ? NO_REPLY
            : replies.find(({ status }) => status === 0 || status >= 400)
        if (bad)
          fail({
            node: node.name,
            inspect: typedRequest(fromNode(from), { ...target, path: '/' }, '--fail --max-time 3'),
            expected: `an answer on port ${nodePort} of ${node.name} to each of ${PORT_REQUESTS} requests from ${from}`,
            actual: `${bad.error || `status ${bad.status}`}, to request ${replies.length || 1}`,
            differences: traceLine(node, sender, target),
          })
        const again = replies.reduce((sum, reply) => sum + reply.resent, 0)
        if (again === 0) return
        resent += again
        const sent = SERIES * PORT_REQUESTS
        return {
          actual: `${resent} packets of ${sent} requests had to be sent again: some packets are lost`,
        }
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
