import { contains } from '../../dataplane/ip-address.ts'
import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { WEB_NAMESPACE, webService } from '../../grading/expect-object.ts'
import { expectFound, expectThat } from '../../grading/failure.ts'
import type { HttpRequests } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import {
  type Answered,
  answersIn,
  DROPPED_SECONDS,
  EXAMPLE_CLIENT,
  fromOutside,
  sendRequests,
  typedRequest,
} from '../../grading/requests.ts'
import { objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { personalise, variantIn } from '../../grading/variant.ts'
import { isMetWithin } from '../../host/wait.ts'
import { expectServiceChains } from '../01-iptables/service-chains.ts'
import { backendsOnTwoNodes } from '../web-client.ts'
import { addressesOutside, expectFromOutside } from './outside-requests.ts'

/**
 * A Service of the learner that outside clients can reach, in front of the web Pods, and the first
 * of its TCP ports.
 */
interface ExposedService {
  service: Service
  name: string
  /** The port on its ClusterIP and load balancer addresses. */
  port: number
  nodePort: number
}

/** The Service of type NodePort in front of the web Pods; fails when there is none. */
export const nodePortService = (snapshot: Snapshot): ExposedService =>
  expectExposed(snapshot, 'NodePort', 'np')

/**
 * The Service of type LoadBalancer in front of the web Pods, and its address; fails when either is
 * missing.
 */
export function loadBalancerService(snapshot: Snapshot): ExposedService & { address: string } {
  const exposed = expectExposed(snapshot, 'LoadBalancer', 'lb')
  const { name, service } = exposed
  const ingress = service.loadBalancerIngress.find(
    ({ ip }) => ip !== undefined && !ip.includes(':'),
  )
  const address = expectFound(ingress?.ip, {
    inspect: `kubectl get service ${name}`,
    expected: `an IPv4 address in the status of ${name}`,
    actual: 'none: its EXTERNAL-IP is pending',
    why: 'Kubernetes only requests the address. A load balancer in front of the cluster must assign it and receive the traffic.',
    hint: 'On kind, LB=own make up starts the load balancer. The events of the Service show which program handles it:',
    next: `kubectl describe service ${name}`,
  })
  return { ...exposed, address }
}

/** The Service of type LoadBalancer, which must have externalTrafficPolicy Local. */
export function localService(snapshot: Snapshot): ReturnType<typeof loadBalancerService> {
  const exposed = loadBalancerService(snapshot)
  expectPolicy(exposed.service, 'Local')
  return exposed
}

/** The Service has the wanted externalTrafficPolicy. */
export function expectPolicy(
  { name, externalTrafficPolicy }: Service,
  wanted: Service['externalTrafficPolicy'],
): void {
  expectThat(externalTrafficPolicy === wanted, {
    inspect: `kubectl get service ${name} -o yaml | grep externalTrafficPolicy`,
    expected: `externalTrafficPolicy: ${wanted} on ${name}`,
    actual: `externalTrafficPolicy: ${externalTrafficPolicy}`,
    next: `kubectl patch service ${name} -p '{"spec":{"externalTrafficPolicy":"${wanted}"}}'`,
  })
}

/**
 * If there are several: the one in the lab text, else one with policy Cluster, else the first by
 * name.
 */
function expectExposed(
  snapshot: Snapshot,
  type: 'NodePort' | 'LoadBalancer',
  suffix: 'np' | 'lb',
): ExposedService {
  const variant = variantIn(snapshot)
  const rank = ({ name, externalTrafficPolicy }: Service) =>
    name === `${variant.name}-${suffix}` ? 0 : externalTrafficPolicy === 'Cluster' ? 1 : 2
  const candidates = objectsOf(snapshot).services.flatMap((service): ExposedService[] => {
    const first = service.ports.find(({ protocol, nodePort }) => protocol === 'TCP' && nodePort > 0)
    const isOurs =
      service.namespace === WEB_NAMESPACE && service.selector.app === 'web' && service.type === type
    return isOurs && first
      ? [{ service, name: service.name, port: first.port, nodePort: first.nodePort }]
      : []
  })
  const [chosen] = candidates.sort(
    (a, b) => rank(a.service) - rank(b.service) || a.name.localeCompare(b.name),
  )
  return expectFound(chosen, {
    inspect: 'kubectl get services',
    expected: `a Service of type ${type} in the default namespace, in front of the Pods of web`,
    actual: 'no such Service',
    next: personalise(
      `kubectl expose deployment web --name web-${suffix} --type ${type} --port 80`,
      variant,
    ),
  })
}

/** web runs on two workers, and every node has the chains of its ClusterIP. */
export function webHasChains(context: CheckContext): void {
  backendsOnTwoNodes(context)
  const { snapshot, nodes } = context
  expectServiceChains(nodes, webService(snapshot).service, {
    chains: [],
    inspect: 'iptables -t nat -S | grep default/web',
    expected: 'a KUBE-SVC chain for web that leads to each of its Pods',
  })
}

/**
 * How long a load balancer may take to notice a change: it sends health checks every few seconds.
 */
const NOTICE_MS = 6000
const REQUESTS = 16

/**
 * Every node has rules for the load balancer's address with its own chain for outside traffic, and
 * an outside client gets an answer.
 */
export async function addressAnswers({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { name, address, port, service } = loadBalancerService(snapshot)
  expectServiceChains(nodes, service, {
    chains: ['nat KUBE-SERVICES'],
    inspect: `iptables -t nat -S KUBE-SERVICES | grep ${address}`,
    expected: `a rule for ${address} port ${port} that leads to the chains of ${name} for traffic from outside`,
  })
  if (live) return expectAllAnswered(live, { address, port })
  const client = service.loadBalancerSourceRanges[0]?.split('/')[0] ?? EXAMPLE_CLIENT
  nodesWithBackends(snapshot).packetReaches({ outside: client }, { address, port })
}

function nodesWithBackends(snapshot: Snapshot) {
  const names = new Set(webService(snapshot).backends.map(({ node }) => node))
  return expectNodes(snapshot.nodes.filter(({ name }) => names.has(name)))
}

/**
 * Requests from outside are answered, enough for each node behind the load balancer, within the
 * load balancer's reaction time.
 */
export async function expectAllAnswered(live: LiveCluster, target: HttpRequests): Promise<void> {
  const request = { seconds: 2, ...target, times: REQUESTS }
  let answered: Answered = { request, replies: [] }
  const isAnswered = await isMetWithin(NOTICE_MS, async () => {
    ;[answered = answered] = await sendRequests(live, fromOutside, [request])
    return answersIn(answered).length === REQUESTS
  })
  if (isAnswered) return
  expectFromOutside(answered, {
    times: REQUESTS,
    expected: `answers from ${request.address} to ${REQUESTS} requests of a client outside the cluster`,
    hint: 'Does any node accept its traffic? Compare the endpoints, the policy and the allowed sources of the Service.',
  })
}

/**
 * loadBalancerSourceRanges admits one client to the load balancer's address and drops another. On a
 * capture: by the rules of every node with a backend, a packet from a range reaches one, and a
 * packet from elsewhere does not.
 */
export async function rangesLetIn({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { name, address, port, service } = loadBalancerService(snapshot)
  const ranges = service.loadBalancerSourceRanges
  expectThat(ranges.length > 0, {
    inspect: `kubectl get service ${name} -o yaml | grep -A 2 loadBalancerSourceRanges`,
    expected: `loadBalancerSourceRanges on ${name} that name one of the two clients outside`,
    actual: 'none: every client is admitted',
  })
  expectServiceChains(nodes, service, {
    chains: ['nat KUBE-SERVICES', 'filter KUBE-PROXY-FIREWALL'],
    inspect: 'iptables-save | grep -E "KUBE-FW|KUBE-PROXY-FIREWALL"',
    expected: `a chain that lets ${ranges.join(', ')} pass, and a DROP for all others`,
  })
  const target = { address, port }
  const isAllowed = (client: string) => ranges.some((range) => contains(range, client))
  if (!live) {
    const expectation = nodesWithBackends(snapshot)
    expectation.packetReaches({ outside: ranges[0]?.split('/')[0] ?? '' }, target)
    expectation.packetReaches(
      { outside: EXAMPLE_CLIENT },
      target,
      isAllowed(EXAMPLE_CLIENT) ? {} : { backends: [] },
    )
    return
  }
  const { own, other } = await addressesOutside(live)
  const clients = other === undefined ? [own] : [own, other]
  const allowed = clients.find(isAllowed)
  const refused = clients.find((client) => !isAllowed(client))
  const allAllowed = refused === undefined && other !== undefined
  const source = expectFound(allAllowed ? undefined : allowed, {
    inspect: typedRequest(fromOutside, {
      ...target,
      path: '/',
      ...(other !== undefined && { source: other }),
    }),
    expected:
      other === undefined
        ? `ranges that hold ${own}, the address of the machine outside`
        : `ranges that hold one of ${own} and ${other}, the addresses of the machine outside, and not the other`,
    actual: `${ranges.join(', ')} ${allowed === undefined ? 'holds none' : 'holds both'}`,
  })
  await expectAllAnswered(live, { ...target, source })
  if (refused === undefined) return
  const request = { ...target, source: refused, seconds: DROPPED_SECONDS }
  for (const answered of await sendRequests(live, fromOutside, [request]))
    expectFromOutside(answered, {
      times: 0,
      expected: `no answer to ${refused}, which is in none of the ranges`,
    })
}
