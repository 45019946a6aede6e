import { parseConntrack } from '../../dataplane/conntrack.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectOnNode } from '../../grading/difference-report.ts'
import { expectNode } from '../../grading/expect-node.ts'
import { expectAnswered } from '../../grading/expect-traffic.ts'
import { expectNone } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { type WebService, webService } from '../../grading/web-service.ts'
import {
  CLIENT,
  clientPod,
  listConnections,
  loggedRequests,
  newToken,
  parseConnections,
  separateRequests,
} from './web-requests.ts'

const REQUESTS = 4

type Client = ReturnType<typeof clientPod>

/**
 * Sends real requests from the client Pod. The ClusterIP is local to the node, IPVS lists each connection, conntrack shows
 * replies from a backend to the Pod, and the backends log the Pod's address. On a capture, the packet is traced through the
 * recorded rules instead.
 */
export async function requestFromPod(context: CheckContext): Promise<void> {
  const { live, snapshot } = context
  const service = webService(snapshot)
  const client = clientPod(context)
  if (!live) return mustReachByRules(context, client, service)
  const token = newToken()
  const target = `${service.address}:${service.port}`

  const first = await live.look(client.node, `ip -o route get ${service.address}`)
  expectOnNode(client.node, `ip route get ${service.address}`, first.stdout.includes(`local ${service.address}`), {
    expected: `that ${service.address} is delivered to the node itself (local)`,
    actual: first.stdout.split('\n').find((line) => line.includes(service.address)) ?? first.stderr.trim(),
  })
  const sent = await live.inPod(CLIENT, separateRequests(service, token, REQUESTS))
  const answers = readReplies(sent.stdout)
  expectAnswered(
    answers,
    REQUESTS,
    { snapshot, node: client.node, sender: { pod: client.address }, target: service },
    {
      inspect: `kubectl exec client -- curl -sS --max-time 5 ${target}`,
      expected: `${REQUESTS} answers to ${REQUESTS} requests from the Pod client`,
    },
  )
  const second = await live.onNode(
    client.node,
    `${listConnections}; conntrack -L -p tcp --orig-src ${client.address} --orig-dst ${service.address} 2>/dev/null`,
  )
  const ports = new Set(answers.map(({ port }) => port))
  const held = parseConnections(second.stdout, service).filter(
    (connection) => connection.client === client.address && ports.has(connection.clientPort),
  )
  expectOnNode(client.node, 'ipvsadm -Lnc', held.length >= REQUESTS, {
    expected: `${REQUESTS} connections from ${client.address} to ${target} in IPVS`,
    actual: `${held.length}: IPVS did not handle the requests`,
  })
  mustKeepSource(client, service, second.stdout, ports)
  const logged = await loggedRequests(live, service, token, REQUESTS)
  const other = logged.find((request) => request.client !== client.address)
  expectNone(other, (request) => ({
    node: client.node,
    inspect: 'kubectl logs -l app=web --prefix --tail=4',
    expected: `${client.address}, the Pod's own address, as the client that the backend sees`,
    actual: `the backend ${request.backend} saw ${request.client}`,
    hint: 'Something masquerades traffic between Pods: compare clusterCIDR in the configuration of kube-proxy with the Pod network.',
  }))
}

/** By the rules, sets and virtual servers of its node, the Pod's packet reaches each ready backend, and its source is kept. */
function mustReachByRules({ snapshot }: CheckContext, client: Client, service: WebService): void {
  const backends = service.backends.map(({ address }) => address).sort()
  expectNode(snapshot.node(client.node)).packetReaches(
    { pod: client.address },
    service,
    { backends, masqueraded: false },
    {
      inspect: () => `make trace FROM=pod/client TO=svc/${service.name}:${service.port}`,
      expected: `the packet of Pod client at ${backends.join(' or ')}, with its own source`,
    },
  )
}

function mustKeepSource(client: Client, service: WebService, output: string, ports: ReadonlySet<number>): void {
  const lines = output.split('\n').filter((line) => line.startsWith('tcp'))
  const flows = parseConntrack(lines.join('\n')).filter((flow) => ports.has(flow.original.sourcePort ?? 0))
  const backends = new Set(service.backends.map(({ address }) => address))
  const list = `conntrack -L --orig-src ${client.address}`
  expectOnNode(client.node, list, flows.length > 0, {
    expected: 'tracked connections from the Pod to the ClusterIP',
    actual: 'none of the four that were just made',
    hint: 'net.ipv4.vs.conntrack must be 1 on the node; kube-proxy sets it when it starts in IPVS mode (make ipvs FORCE=1).',
  })
  const bent = flows.find(({ reply }) => !backends.has(reply.source) || reply.destination !== client.address)
  expectOnNode(client.node, list, !bent, {
    expected: `replies from one of the backends to ${client.address}`,
    actual: `replies from ${bent?.reply.source} to ${bent?.reply.destination}`,
  })
}
