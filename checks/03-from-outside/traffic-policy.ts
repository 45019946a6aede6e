import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectField, expectFound } from '../../grading/expect-object.ts'
import { expectLogged } from '../../grading/expect-traffic.ts'
import { type NodeView, nodeAddressOf, stateOf } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { expectPolicy, localService, mustBeWrittenEverywhere, nodePortService } from './exposed-service.ts'
import {
  addressesOutside,
  askAndReadLogs,
  askFromOutside,
  DROPPED_SECONDS,
  EXAMPLE_CLIENT,
  expectFromOutside,
  type Request,
  tracedFrom,
} from './outside-requests.ts'

/** `--service-node-port-range` of the API server by default. */
const RANGE = { first: 30000, last: 32767 }
const NODE_PORTS = 'KUBE-NODEPORTS'

/**
 * The node port is in the range, KUBE-NODEPORTS is the last rule of KUBE-SERVICES, and every node answers an outside client,
 * with or without a local Pod.
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
    why: 'Rules for a ClusterIP or a load balancer address must be before the one for "any address of this node".',
  })
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-SERVICES', `nat ${NODE_PORTS}`],
    inspect: `iptables -t nat -S ${NODE_PORTS}`,
    expected: `a rule for port ${nodePort} in ${NODE_PORTS}, and the chains that it leads to`,
  })
  const requests = nodes.map((node) => ({ node, address: nodeAddressOf(snapshot, node.name), port: nodePort }))
  const words = {
    expected: `an answer on port ${nodePort} of every node, asked from outside the cluster`,
    ...(exposed.policy === 'Local' && {
      hint: `${name} has externalTrafficPolicy Local: this step needs it to be Cluster.`,
    }),
  }
  if (!live) {
    for (const { node, ...target } of requests)
      expectNode(node).packetFromOutsideReachesBackend(EXAMPLE_CLIENT, target, words)
    return
  }
  const statuses = await askFromOutside(live, requests)
  for (const [index, request] of requests.entries())
    expectFromOutside(request, statuses[index] ?? [], { times: 1, ...words })
}

/** Requests to each node: enough that some go to a Pod on another node. */
const REQUESTS = 6

/**
 * With externalTrafficPolicy Cluster a node forwards requests to Pods on other nodes, and no Pod sees the client: each logs
 * an address of the node that received the request.
 */
export async function clientIsLost({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = nodePortService(snapshot)
  expectPolicy(exposed, 'Cluster')
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-MARK-MASQ', 'nat KUBE-POSTROUTING', 'nat POSTROUTING'],
    inspect: 'iptables -t nat -S | grep -E "KUBE-EXT|KUBE-MARK-MASQ|KUBE-POSTROUTING"',
    expected: 'a mark for packets from outside, and a masquerade rule for the mark',
  })
  const web = webService(snapshot)
  const asked = nodes.map((node) => {
    return { node, address: nodeAddressOf(snapshot, node.name), port: exposed.nodePort, times: REQUESTS }
  })
  if (!live) {
    const backends = web.backends.map((backend) => backend.address).sort()
    for (const { node, ...target } of asked)
      expectNode(node).packetReaches(
        { outside: EXAMPLE_CLIENT },
        target,
        { backends, masqueraded: true },
        { inspect: (name) => onNode(name, 'iptables -t nat -S | grep -E "KUBE-EXT|KUBE-MARK-MASQ"') },
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
      inspect: 'kubectl logs -l app=web --prefix --tail=8',
      expected: 'requests that a node passed on to a Pod on another one',
      actual: `all ${logged.length} requests stayed on the node that received them`,
    },
  )
}

const ownAddresses = (node: NodeView) =>
  stateOf(node).links.flatMap((link) => link.addresses.map(({ address }) => address))

const TO_ONE_NODE = 4

interface Asked extends Request {
  node: NodeView
  /** The backends on this node. */
  local: string[]
}

/**
 * With externalTrafficPolicy Local a node answers with its own Pods, which see the real client, and drops packets if it has
 * none.
 */
export async function clientIsKept({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const exposed = localService(snapshot)
  mustBeWrittenEverywhere(nodes, exposed, {
    chains: ['nat KUBE-NODEPORTS', 'filter KUBE-EXTERNAL-SERVICES'],
    inspect: 'iptables-save | grep -E "KUBE-SVL|KUBE-EXT|no local endpoints"',
    expected: "this node's own Pods, or a DROP where it has none, behind the chain for traffic from outside",
  })
  const web = webService(snapshot)
  const asked = nodes.map((node): Asked => {
    const local = web.backends.filter((backend) => backend.node === node.name).map(({ address }) => address)
    const place = { address: nodeAddressOf(snapshot, node.name), port: exposed.nodePort }
    return local.length > 0
      ? { node, local, ...place, times: TO_ONE_NODE }
      : { node, local, ...place, seconds: DROPPED_SECONDS }
  })
  if (!live) {
    for (const { node, local, ...target } of asked)
      expectNode(node).packetReaches(
        { outside: EXAMPLE_CLIENT },
        target,
        { backends: local, masqueraded: false },
        { inspect: (name) => onNode(name, 'iptables-save | grep -E "KUBE-SVL|KUBE-EXT|no local endpoints"') },
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
            times: TO_ONE_NODE,
            expected: `${TO_ONE_NODE} answers to ${TO_ONE_NODE} requests from outside: ${name} has Pods of its own`,
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

/** The health check port of each node returns 200 if the Service has local Pods, else 503. */
export async function healthPortReports({ snapshot, nodes, live }: CheckContext): Promise<void> {
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
      inspect: 'iptables -S KUBE-NODEPORTS',
    })
  if (!live) return
  const { backends } = webService(snapshot)
  const requests = nodes.map((node) => ({ node, address: nodeAddressOf(snapshot, node.name), port, seconds: 2 }))
  const statuses = await askFromOutside(live, requests)
  for (const [index, request] of requests.entries()) {
    const pods = backends.filter(({ node }) => node === request.node.name).length
    const { name } = request.node
    const status = pods > 0 ? 200 : 503
    const expected = `status ${status}: ${name} has ${pods === 0 ? 'no Pod' : pods === 1 ? 'one Pod' : `${pods} Pods`} of web`
    expectFromOutside(request, statuses[index] ?? [], { times: 1, status, expected })
  }
}
