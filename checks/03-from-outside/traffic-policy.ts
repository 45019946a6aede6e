import { targetOf } from '../../dataplane/rule.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { webService } from '../../grading/expect-object.ts'
import { expectFound, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import {
  DROPPED_SECONDS,
  EXAMPLE_CLIENT,
  fromOutside,
  sendMarked,
  sendRequests,
} from '../../grading/requests.ts'
import { controlPlaneOf, type NodeView, nodeAddressOf, stateOf } from '../../grading/snapshot.ts'
import { expectLogged } from '../../grading/traffic.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { expectServiceChains } from '../01-iptables/service-chains.ts'
import { expectPolicy, localService, nodePortService } from './exposed-service.ts'
import {
  addressesOutside,
  expectFromOutside,
  toEachNode,
  tracedFromOutside,
} from './outside-requests.ts'

/** `--service-node-port-range` of the API server by default. */
const RANGE = { first: 30000, last: 32767 }
const NODE_PORTS = 'KUBE-NODEPORTS'

/**
 * The node port is in the range, KUBE-NODEPORTS is the last rule of KUBE-SERVICES and leads to the
 * Service, and every node answers an outside client, with or without a local Pod.
 */
export async function nodePortAnswersEverywhere({
  snapshot,
  nodes,
  live,
}: CheckContext): Promise<void> {
  const { name, nodePort, service } = nodePortService(snapshot)
  expectThat(nodePort >= RANGE.first && nodePort <= RANGE.last, {
    inspect: `kubectl get service ${name}`,
    expected: `a node port from ${RANGE.first} to ${RANGE.last}`,
    actual: String(nodePort),
  })
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectServiceChains(nodes, service, {
    chains: ['nat KUBE-SERVICES', `nat ${NODE_PORTS}`],
    inspect: `iptables -t nat -S ${NODE_PORTS}`,
    expected: `a rule for port ${nodePort} in ${NODE_PORTS}, and the chains that it leads to`,
  })
  const texts = {
    expected: `an answer on port ${nodePort} of every node to a client outside the cluster`,
    ...(service.externalTrafficPolicy === 'Local' && {
      hint: `${name} has externalTrafficPolicy Local: this step needs it to be Cluster.`,
    }),
  }
  const requests = toEachNode(snapshot, nodePort)
  if (live)
    for (const answered of await sendRequests(live, fromOutside, requests))
      expectFromOutside(answered, { times: 1, ...texts })
  else
    for (const { node, ...target } of requests)
      expectNode(node).packetReaches({ outside: EXAMPLE_CLIENT }, target, {}, texts)
}

/**
 * Question: where KUBE-NODEPORTS sends a packet for the node port: KUBE-EXT-… since 1.24, the
 * Service's own chains before.
 */
export function nodePortChain({ snapshot, nodes: [node] }: CheckContext): Truth {
  const { nodePort } = nodePortService(snapshot)
  const nat = node && evaluate(node, 'iptables').expected.iptables.get('nat')
  const rules = (nat?.get(NODE_PORTS)?.rules ?? []).filter(({ spec }) =>
    spec.includes(`--dport ${nodePort} `),
  )
  const targets = rules
    .flatMap(({ spec }) => targetOf(spec) ?? [])
    .filter((target) => target !== 'KUBE-MARK-MASQ')
  return {
    accepts: [...new Set(targets)],
    inspect: `make exec CMD='iptables -t nat -S ${NODE_PORTS}'`,
    wrong: [
      {
        when: NODE_PORTS,
        because: `That is the chain in which the packet is now. The target of its rule follows -j.`,
      },
      {
        when: (answer) =>
          targets.some((target) => target.startsWith('KUBE-EXT-')) && /^kube-svc-/i.test(answer),
        because:
          'KUBE-SVC is one jump later: it chooses a Pod, for traffic from inside as well. Up to 1.23 KUBE-NODEPORTS jumped to it directly.',
      },
      {
        when: (answer) => /^kube-sep-/i.test(answer),
        because:
          'KUBE-SEP is the chain of a single Pod, and the last jump. Which chain comes before the choice?',
      },
    ],
    because: 'KUBE-EXT decides about traffic from outside, before the chain that chooses a Pod.',
  }
}

/** Requests to each node: enough that some go to a Pod on another node. */
const REQUESTS = 6

/**
 * Policy Cluster: a node forwards requests to Pods of other nodes, and each Pod logs an address of
 * the node instead of the client.
 */
export async function clientIsLost({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { service, nodePort } = nodePortService(snapshot)
  expectPolicy(service, 'Cluster')
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
  expectServiceChains(nodes, service, {
    chains: ['nat KUBE-MARK-MASQ', 'nat KUBE-POSTROUTING', 'nat POSTROUTING'],
    inspect: 'iptables -t nat -S | grep -E "KUBE-EXT|KUBE-MARK-MASQ|KUBE-POSTROUTING"',
    expected: 'a mark for packets from outside, and a masquerade rule for the mark',
  })
  const web = webService(snapshot)
  const requests = toEachNode(snapshot, nodePort).map((request) => ({
    ...request,
    times: REQUESTS,
  }))
  if (!live) {
    const backends = web.backends.map((backend) => backend.address)
    for (const { node, ...target } of requests)
      expectNode(node).packetReaches({ outside: EXAMPLE_CLIENT }, target, {
        backends,
        masqueraded: true,
      })
    return
  }
  const { answered, logs } = await sendMarked(live, fromOutside, web, requests)
  for (const one of answered)
    expectFromOutside(one, {
      times: REQUESTS,
      expected: `${REQUESTS} answers to ${REQUESTS} requests from outside`,
    })
  const received = await logs()
  for (const { request, logged } of received) {
    const { node } = request
    expectLogged(
      logged,
      ({ client }) => addressesOf(node).includes(client),
      ({ backend, client }) => ({
        node: node.name,
        expected: `an address of ${node.name} as the client in the log of ${backend.pod}`,
        actual: `${client}, which is none`,
        ...tracedFromOutside(request),
      }),
    )
  }
  const forwarded = received.flatMap(({ request, logged }) =>
    logged.filter(({ backend }) => backend.node !== request.node.name),
  )
  expectFound(forwarded[0], {
    inspect: 'kubectl logs -l app=web --prefix --tail=8',
    expected: 'requests that a node passed on to a Pod on another one',
    actual: 'all requests stayed on the node that received them',
  })
}

const addressesOf = (node: NodeView) =>
  stateOf(node).links.flatMap((link) => link.addresses.map(({ address }) => address))

/**
 * Question: the client that web logs for a request to a node without Pods: the node's own address,
 * because the Pods are on other nodes.
 */
export function loggedClient({ snapshot, nodes }: CheckContext): Truth {
  const { nodePort, service } = nodePortService(snapshot)
  const taken = new Set(webService(snapshot).backends.map(({ node }) => node))
  const free = nodes.filter(({ name }) => !taken.has(name))
  const controlPlane = controlPlaneOf(snapshot)
  const target = free.find((node) => node === controlPlane) ?? free[0]
  if (!target || service.externalTrafficPolicy !== 'Cluster')
    throw new NotApplicable('there is no node without Pods of web whose node port answers')
  const address = nodeAddressOf(snapshot, target.name)
  const others = nodes.filter(({ name }) => taken.has(name))
  return {
    accepts: [address],
    inspect: onNode(OUTSIDE, `curl -s ${address}:${nodePort}/?who`),
    wrong: [
      ...others.map(({ name }) => ({
        when: nodeAddressOf(snapshot, name),
        because: `That is the node of a Pod. The packet was masqueraded earlier, where it left ${target.name} for the Pod.`,
      })),
      {
        when: (answer: string) => answer.startsWith('10.244.'),
        because: `That would be right if the Pod ran on ${target.name} itself: masquerading takes the address of the interface by which the packet leaves.`,
      },
      {
        when: (answer: string) => answer.startsWith('10.96.'),
        because:
          'No packet has the ClusterIP as its source here: the client sent to the node port, and no interface has a ClusterIP in this mode.',
      },
      {
        when: (answer: string) => /^\d+\.\d+\.\d+\.\d+$/.test(answer),
        because:
          'Is it the client outside? Its address would be kept under policy Local. Under Cluster the node replaces it, because the reply must come back through it.',
      },
    ],
    because: `${target.name} has replaced the source, and the packet left by the interface with this address.`,
  }
}

const TO_ONE_NODE = 4
const LIST_LOCAL_CHAINS = 'iptables-save | grep -E "KUBE-SVL|KUBE-EXT|no local endpoints"'

/**
 * With externalTrafficPolicy Local a node answers with its own Pods, which see the real client, and
 * drops packets if it has none.
 */
export async function clientIsKept({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { service, nodePort } = localService(snapshot)
  expectServiceChains(nodes, service, {
    chains: ['nat KUBE-NODEPORTS', 'filter KUBE-EXTERNAL-SERVICES'],
    inspect: LIST_LOCAL_CHAINS,
    expected:
      "this node's own Pods, or a DROP where it has none, behind the chain for traffic from outside",
  })
  const web = webService(snapshot)
  const requests = toEachNode(snapshot, nodePort).map((request) => {
    const local = web.backends
      .filter(({ node }) => node === request.node.name)
      .map(({ address }) => address)
    return {
      ...request,
      local,
      ...(local.length > 0 ? { times: TO_ONE_NODE } : { seconds: DROPPED_SECONDS }),
    }
  })
  if (!live) {
    for (const { node, local, ...target } of requests)
      expectNode(node).packetReaches({ outside: EXAMPLE_CLIENT }, target, {
        backends: local,
        masqueraded: false,
      })
    return
  }
  const outside = await addressesOutside(live)
  const { answered, logs } = await sendMarked(live, fromOutside, web, requests)
  for (const one of answered) {
    const { node, local } = one.request
    expectFromOutside(
      one,
      local.length === 0
        ? { times: 0, expected: `no answer: ${node.name} has no Pod of web` }
        : {
            times: TO_ONE_NODE,
            expected: `${TO_ONE_NODE} answers to ${TO_ONE_NODE} requests from outside: ${node.name} has Pods of its own`,
          },
    )
  }
  for (const { request, logged } of await logs()) {
    const { name } = request.node
    expectLogged(
      logged,
      ({ backend, client }) => client === outside.own && backend.node === name,
      ({ backend, client }) => ({
        node: name,
        expected: `${outside.own}, the client outside, in the log of a Pod on ${name}`,
        actual: `${client} in the log of ${backend.pod} on ${backend.node}`,
        ...tracedFromOutside(request),
      }),
    )
  }
}

/** The health check port of each node returns 200 if the Service has local Pods, else 503. */
export async function healthPortReports({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { name, service } = localService(snapshot)
  const port = service.healthCheckNodePort
  expectThat(port > 0, {
    inspect: `kubectl get service ${name} -o yaml | grep healthCheckNodePort`,
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
  const requests = toEachNode(snapshot, port).map((request) => ({ ...request, seconds: 2 }))
  for (const one of await sendRequests(live, fromOutside, requests)) {
    const node = one.request.node.name
    const pods = backends.filter((backend) => backend.node === node).length
    const status = pods > 0 ? 200 : 503
    const has = pods === 0 ? 'no Pod' : pods === 1 ? 'one Pod' : `${pods} Pods`
    expectFromOutside(one, {
      times: 1,
      status,
      expected: `status ${status}: ${node} has ${has} of web`,
    })
  }
}
