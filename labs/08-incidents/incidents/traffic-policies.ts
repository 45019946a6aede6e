import type { Incident } from '../../../course/incident/incident.ts'
import {
  complaint,
  type IncidentContext,
  type Symptom,
} from '../../../course/incident/incident-context.ts'
import { addressOf, incidentFact } from '../../../course/incident/shop.ts'
import { patchService } from '../../../course/typed-commands.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../../host/outside.ts'
import { waitFor } from '../../../host/wait.ts'

const internal = (internalTrafficPolicy: 'Local' | 'Cluster') => ({
  spec: { internalTrafficPolicy },
})

export const internalPolicy: Incident = {
  id: 'internal-policy',
  cause:
    'nodes without a Pod of the Service drop requests from inside the cluster, because of its traffic policy',
  mode: 'iptables',
  needs: ['internal-policy'],
  stops: 'dropped',
  sign: "With internalTrafficPolicy Local, clients of nodes without a Pod would fail, in Pods and outside of them, and the Service's YAML would contain `internalTrafficPolicy: Local`.",
  report: ({ nodes, shop }) =>
    `Our backup job on ${nodes[0]}, which runs in the node's own network, gets no answer from the shop at ${shop} since yesterday. Customers in Pods have no trouble.`,
  hints: [
    'Send the same request from every node, and from the customer. Which requests fail?',
    'The packet is dropped on the node where it starts. Look at the filter table of that node for rules about the address.',
    'Which field of the Service shop applies to traffic from inside the cluster?',
  ],
  break: (bench) => bench.patch('Service', 'shop', internal('Local')),
  async symptom(context) {
    const [node = ''] = context.environment.nodes
    const url = `http://${context.environment.shop}/`
    const answers = await context.fromNode(node, url, url)
    const bad = answers.find(({ status }) => status !== 200)
    const command = `make exec NODE=${node} CMD='curl -sS --max-time 2 ${url}'`
    return bad && { inspect: command, expected: 'an answer from the shop', actual: 'none' }
  },
  causeLeft: (context) =>
    context.service('shop')?.internalTrafficPolicy === 'Local'
      ? 'the Service shop has internalTrafficPolicy Local'
      : undefined,
  fix: () => patchService('shop', internal('Cluster')),
  debrief: `internalTrafficPolicy: Local sends traffic from inside the cluster only to Pods of the same node. It is meant for agents that
run on every node; with two Pods, every other node gets no answer. kube-proxy writes "has no local endpoints" DROP rules
there, and the client sees only a timeout (in IPVS mode a refusal: the virtual server has no real server).`,
}

const externalPolicy = (externalTrafficPolicy: 'Local' | 'Cluster') => ({
  spec: { externalTrafficPolicy },
})

export const localPolicy: Incident = {
  id: 'local-policy',
  cause:
    'nodes without a Pod of the Service drop requests from outside, because of its traffic policy',
  mode: 'iptables',
  stops: 'dropped',
  sign: 'With externalTrafficPolicy Local, exactly the nodes without a Pod of the Service would give no answer to clients from outside.',
  report: (environment) =>
    `Partners who call the shop at ${addressOf(environment, environment.nodes[0] ?? '')}:${environment.nodePort} get no answer until they give up. With the other nodes' addresses it works, and we even see the partners' own addresses in our logs now.`,
  hints: [
    'What do the other nodes have that the node without an answer lacks?',
    'The request is not refused: the packet is dropped. Look for DROP rules for the port in the filter table of that node.',
    'Which field of the Service shop-np tells kube-proxy to keep traffic on the node where it arrived?',
  ],
  break: (bench) => bench.patch('Service', 'shop-np', externalPolicy('Local')),
  symptom: (context) => context.nodePortEverywhere(),
  causeLeft: (context) =>
    context.service('shop-np')?.externalTrafficPolicy === 'Local'
      ? 'the Service shop-np has externalTrafficPolicy Local, and not every node has a Pod of the shop'
      : undefined,
  fix: () => patchService('shop-np', externalPolicy('Cluster')),
  debrief: `externalTrafficPolicy: Local keeps the client's address by never forwarding a packet to another node. In return, a node
without a Pod must drop it. A load balancer queries healthCheckNodePort and avoids such nodes; a client that uses the address
of one node does not. Either every node has a Pod, or the policy must be Cluster.`,
}

const affinity = (sessionAffinity: 'ClientIP' | 'None') => ({
  spec: { sessionAffinity, ...(sessionAffinity === 'None' && { sessionAffinityConfig: null }) },
})

/** This many requests all go to one of two Pods by chance once in 2,000 times. */
const REQUESTS = 12

/** The symptom if one Pod of the shop answers all requests of the customer. */
async function oneOfTwoPods(context: IncidentContext): Promise<Symptom | undefined> {
  const shares = await context.shares(REQUESTS)
  const served = shares.filter(({ requests }) => requests > 0)
  if (served.length >= 2) return undefined
  const parts = shares.map(({ pod, requests }) => `${pod} ${requests}`).join(', ')
  return {
    inspect: 'kubectl logs -l app=shop --prefix --tail=20',
    expected: `${REQUESTS} requests of the customer spread over the Pods of the shop`,
    actual: parts || 'no Pod of the shop is ready',
  }
}

export const sessionAffinity: Incident = {
  id: 'session-affinity',
  cause: 'the Service sends each client to the same Pod as before',
  mode: 'iptables',
  sign: 'With session affinity no request would be lost, and KUBE-SVC-… would begin with rules that contain `-m recent`.',
  report: () =>
    "The customer's batch job overloads one Pod of the shop while the other one is idle. The load was even until last week.",
  hints: [
    'Send a dozen requests from the customer and see which Pods log them. Then send some from a node.',
    'No request is lost, only the choice of the Pod is unusual. Read the first rules of the chain KUBE-SVC-… of the Service shop.',
    "Rules with `-m recent` store the client's address. Which field of the Service causes them?",
  ],
  break: (bench) => bench.patch('Service', 'shop', affinity('ClientIP')),
  symptom: oneOfTwoPods,
  causeLeft: (context) =>
    context.service('shop')?.sessionAffinity === 'ClientIP'
      ? 'the Service shop has sessionAffinity ClientIP'
      : undefined,
  fix: () => patchService('shop', affinity('None')),
  debrief: `sessionAffinity: ClientIP keeps a client at its Pod for three hours after its last connection. In iptables mode this is a pair
of rules with -m recent for each endpoint, in IPVS mode a persistent virtual server. A batch job, a proxy or a masquerading
node counts as one client, however many users it serves, and adding Pods does not spread its load.`,
}

const distribution = (trafficDistribution: 'PreferClose' | null) => ({
  spec: { trafficDistribution },
})

export const closeEndpoints: Incident = {
  id: 'close-endpoints',
  cause: "the Service sends each client only to Pods in the zone of the client's node",
  mode: 'iptables',
  needs: ['zones'],
  stops: 'pod',
  sign: 'If the Service kept clients in their zone, KUBE-SVC-… of the Service would have one jump on each node, to another Pod on a node of the other zone.',
  report: ({ node }) =>
    `All orders of the customer on ${node} are made by one Pod of the shop, which is at its limit; the other one is idle. A second customer, on another node, had only that other Pod. A colleague wanted to lower the bill for our network.`,
  hints: [
    'Send a dozen requests from the customer, and a dozen from each node. Which Pod logs which of them?',
    'No request is lost, and no rule stores a client. How many endpoints does the chain KUBE-SVC-… of the Service shop have on each node?',
    'kube-proxy knows both endpoints, and left one out. Read what is written beside each, `kubectl get endpointslices -l kubernetes.io/service-name=shop -o yaml`. Which field of the Service causes that?',
  ],
  break: (bench) => bench.patch('Service', 'shop', distribution('PreferClose')),
  symptom: oneOfTwoPods,
  causeLeft(context) {
    const value = context.service('shop')?.trafficDistribution
    return value && `the Service shop has trafficDistribution ${value}`
  },
  fix: () => patchService('shop', distribution(null)),
  debrief: `trafficDistribution keeps requests in the zone of the client while a ready Pod is there. The EndpointSlice controller writes at
each endpoint for which zone it is meant, and the kube-proxy of a node leaves out those that are meant for other zones. Nothing
measures load: with one Pod in a zone, all clients of the zone get that Pod, and a new Pod in the other zone changes nothing for
them.`,
}

const NAME = 'shop-lb'
const ranges = (...loadBalancerSourceRanges: string[]) => ({ spec: { loadBalancerSourceRanges } })

export const sourceRanges: Incident = {
  id: 'source-ranges',
  cause: 'the address of the client is not among those that the Service allows',
  mode: 'iptables',
  needs: ['outside'],
  stops: 'dropped',
  sign: "If the client's address were not allowed, only the load balancer's address would fail, and KUBE-FW-… would list the allowed sources.",
  report: ({ facts }) =>
    `Our warehouse (${facts.warehouse}) can no longer reach the shop at its public address ${facts.address}. Note that the branch next to it (${facts.branch}) must stay blocked: it is no longer ours.`,
  hints: [
    'From inside the cluster the shop works. The packet reaches a node; which chain stops it there?',
    'Read the chains that begin with KUBE-FW- and the chain KUBE-PROXY-FIREWALL, with counters, on a node.',
    'Which field of the Service shop-lb lists the allowed clients? `make exec NODE=outside CMD="ip address"` shows the addresses of the clients outside.',
  ],
  async break(bench, { facts }) {
    const { own, other = '' } = readOutsideAddresses(
      await bench.onNode(OUTSIDE, printOutsideAddresses),
    )
    Object.assign(facts, { warehouse: own, branch: other })
    const spec = {
      type: 'LoadBalancer',
      selector: { app: 'shop' },
      ports: [{ port: 80, targetPort: 'web' }],
      ...ranges('198.51.100.0/24').spec,
    }
    await bench.create('Service', NAME, { lab: 'incidents' }, { spec })
    facts.address = await waitFor('an address of the load balancer', 60_000, async () => {
      const { status } = await bench.client.core.readNamespacedService({
        namespace: 'default',
        name: NAME,
      })
      return status?.loadBalancer?.ingress?.[0]?.ip
    })
  },
  async symptom(context) {
    const url = `http://${incidentFact(context.environment, 'address')}/`
    const warehouse = incidentFact(context.environment, 'warehouse')
    const command = `make exec NODE=outside CMD='curl -sS --max-time 2 --interface ${warehouse} ${url}'`
    return complaint(
      await context.fromOutside(warehouse, url),
      command,
      'an answer for the warehouse',
    )
  },
  async causeLeft(context) {
    const { facts } = context.environment
    if ((context.service(NAME)?.loadBalancerSourceRanges ?? []).length === 0)
      return 'the Service shop-lb allows all clients, including the branch'
    const url = `http://${facts.address}/`
    if (
      (await context.fromOutside(incidentFact(context.environment, 'warehouse'), url)).some(
        ({ status }) => status !== 200,
      )
    )
      return 'the Service shop-lb does not allow the warehouse'
    if (!facts.branch) return undefined
    const branch = await context.fromOutside(facts.branch, url)
    return branch.some(({ status }) => status === 200)
      ? 'the Service shop-lb allows the branch, too'
      : undefined
  },
  fix: (environment) => patchService(NAME, ranges(`${incidentFact(environment, 'warehouse')}/32`)),
  revert: (bench) => bench.delete('Service', NAME),
  debrief: `loadBalancerSourceRanges is a firewall that kube-proxy writes: KUBE-FW-… lets the listed sources through to the Service, and
all others meet DROP in KUBE-PROXY-FIREWALL (in IPVS mode: a set of sources, and KUBE-SOURCE-RANGES-FIREWALL). It matches the
source address that reaches the node, so it only works if nothing in front replaces that address. It applies to Pods, too: one
that uses the load balancer's address must be listed. Pods that use the ClusterIP or the name of the Service are not affected.`,
}
