import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import {
  clusterService,
  expectReadyPod,
  WEB_NAMESPACE,
  type WebService,
  webService,
} from '../../grading/expect-object.ts'
import { expectFound, expectOnNode, expectThat, onNode } from '../../grading/failure.ts'
import { type Sender, tracedTo, traceOf } from '../../grading/packet-trace.ts'
import type { Truth } from '../../grading/question.ts'
import {
  expectAnswers,
  fromNode,
  fromPod,
  sendRequests,
  typedRequest,
} from '../../grading/requests.ts'
import { countByPod, isLikelyShare } from '../../grading/shares.ts'
import { type NodeView, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { clientPod } from '../web-client.ts'
import { webChain } from './service-chains.ts'

const MANIFEST = 'labs/01-iptables/manifests/three-services.yaml'
/** The Service of the manifest that selects no Pod. */
const EMPTY_SERVICE = 'nobody'
/** curl's exit code for a refused connection; for a dropped one it is 28 (timeout). */
const REFUSED = 7
const LOOK = 'iptables -t filter -S KUBE-SERVICES'

/**
 * A rule on every node rejects packets to a Service without endpoints, from a Pod and from the node
 * itself.
 */
export async function rejectsWithoutEndpoints(context: CheckContext): Promise<void> {
  const { nodes, snapshot, live } = context
  const { address, port } = emptyService(snapshot)
  expectNodes(nodes)
    .chains('filter KUBE-SERVICES', 'filter FORWARD', 'filter OUTPUT')
    .equalPrediction(
      'iptables',
      'a rule with REJECT for each Service port that has no endpoint, and no other',
      {
        inspect: LOOK,
      },
    )
  for (const node of nodes) rejectRule(node, address)
  if (!live) return
  const client = clientPod(context, '01-iptables')
  const senders = [client, ...nodes.map(({ name }) => fromNode(name))]
  const sent = await Promise.all(
    senders.map((from) => sendRequests(live, from, [{ address, port }])),
  )
  for (const [index, from] of senders.entries()) {
    const [reply] = sent[index]?.[0]?.replies ?? []
    expectThat(reply?.code === REFUSED, {
      node: from.node,
      inspect: typedRequest(from, { address, port, path: '/' }, '-o /dev/null --max-time 3'),
      expected: 'a connection that is refused immediately (curl exits with 7)',
      actual: reply?.status ? 'an answer' : (reply?.error ?? 'no reply'),
    })
  }
}

/** The --reject-with option of the rule for a Service without endpoints. */
export function rejectedWith({ nodes, snapshot }: CheckContext): Truth {
  const { address } = emptyService(snapshot)
  const [node] = nodes.slice(-1)
  const message = node && /--reject-with (\S+)/.exec(rejectRule(node, address))?.[1]
  return {
    accepts: message === undefined ? [] : [message],
    inspect: onNode(node?.name ?? '', LOOK),
    wrong: [
      {
        when: 'icmp-host-unreachable',
        because: 'That says that a machine cannot be reached. The message here is about a port.',
      },
      {
        when: 'tcp-reset',
        because:
          "A Pod's kernel would send that for a port without a listener. The rule is for UDP as well, so it uses ICMP.",
      },
    ],
    because: "The sender's kernel takes it for TCP, too, and ends the connection attempt.",
  }
}

function emptyService(snapshot: Snapshot): { address: string; port: number } {
  return clusterService(snapshot, EMPTY_SERVICE, {
    inspect: `kubectl get service,endpointslices -l app=${EMPTY_SERVICE}`,
    expected: `a Service ${EMPTY_SERVICE} with a ClusterIP, and no Pod behind it`,
    next: `kubectl apply -f ${MANIFEST}`,
  })
}

function rejectRule(node: NodeView, address: string): string {
  const { name } = node
  const rules = stateOf(node).iptables.get('filter')?.get('KUBE-SERVICES')?.rules ?? []
  const rule = rules.find(
    ({ spec }) => spec.includes(`-d ${address}/32 `) && spec.includes('-j REJECT'),
  )
  return expectFound(rule?.spec, {
    node: name,
    inspect: onNode(name, LOOK),
    expected: `a rule in the filter table's KUBE-SERVICES that rejects packets for ${address}`,
    actual: 'none: the Service has an endpoint, or the rule is lost',
  })
}

const REQUESTS = 100

/**
 * By the rules of every node, each Pod has the same share; and of 100 real requests each Pod gets
 * about the same number.
 */
export async function podSharesAreEven(context: CheckContext): Promise<void> {
  const { nodes, live, snapshot } = context
  const service = webService(snapshot)
  const client = clientPod(context, '01-iptables')
  for (const node of nodes) expectFairRules(node, client.sender, service, webChain(snapshot))
  if (!live) return
  const { logged } = await expectAnswers(context, live, client, service, REQUESTS)
  const shares = countByPod(service.backends, await logged())
  const isEven = shares.every(({ requests }) =>
    isLikelyShare(requests, REQUESTS, 1 / shares.length),
  )
  expectThat(isEven, {
    node: client.node,
    inspect: 'kubectl logs -l app=web --prefix --tail=40',
    expected: `about ${Math.round(REQUESTS / shares.length)} of ${REQUESTS} requests for each of ${shares.length} Pods`,
    actual: shares.map(({ pod, requests }) => `${pod} ${requests}`).join(', '),
  })
}

function expectFairRules(node: NodeView, sender: Sender, service: WebService, chain: string): void {
  const { backends } = service
  const { outcomes } = traceOf(node, sender, service)
  const even = 1 / backends.length
  const unfair = backends.find((backend) => {
    const own = outcomes.filter(({ to }) => to.startsWith(`${backend.address}:`))
    return Math.abs(own.reduce((sum, { probability }) => sum + probability, 0) - even) > 1e-6
  })
  const shares = outcomes
    .map(({ to, probability }) => `${to} ${(100 * probability).toFixed(1)} %`)
    .join(', ')
  expectOnNode(node.name, `iptables -t nat -S ${chain}`, !unfair, {
    expected: `${(100 * even).toFixed(1)} % for each of ${backends.length} Pods`,
    actual: shares || tracedTo(node, sender, service).text,
    why: 'Each rule chooses from the packets that the rules above it did not match, so the probabilities 1/n, 1/(n-1) … 1 give equal shares.',
  })
}

const MIRROR = 'mirror'

/**
 * Each endpoint chain marks packets of its own endpoint, and a Pod that reaches itself through its
 * Service sees another client.
 */
export async function podReachesItself(context: CheckContext): Promise<void> {
  const { nodes, snapshot, live } = context
  const { address, node, service } = mirrorOf(snapshot)
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
  expectNodes(nodes)
    .natChains(
      (chain) =>
        chain.startsWith('KUBE-SEP-') || chain === 'KUBE-MARK-MASQ' || chain === 'KUBE-POSTROUTING',
      'iptables-save -t nat | grep -e KUBE-SEP- -e KUBE-MARK-MASQ -e KUBE-POSTROUTING',
    )
    .equalPrediction(
      'iptables',
      'in each KUBE-SEP- chain a rule that marks packets from its own endpoint, before the DNAT',
    )
  expectNode(snapshot.node(node)).packetReaches({ pod: address }, service, {
    backends: [address],
    masqueraded: true,
  })
  if (!live) return
  const { logged } = await expectAnswers(
    context,
    live,
    fromPod(MIRROR, { address, node }),
    service,
    1,
    {
      expected: `an answer of the Pod ${MIRROR} to itself`,
    },
  )
  const itself = (await logged()).find(({ client }) => client === address)
  expectThat(!itself, {
    node,
    inspect: `kubectl logs ${MIRROR} --tail=1`,
    expected: 'another client than the Pod itself in its log',
    actual: `${address}, the Pod's own address`,
  })
}

/** The Pod mirror and its Service, of which it is the only endpoint. */
function mirrorOf(snapshot: Snapshot): { address: string; node: string; service: WebService } {
  const texts = {
    inspect: `kubectl get pods,services -l app=${MIRROR} -o wide`,
    expected: `a Pod ${MIRROR} that is ready, and a Service ${MIRROR} in front of it`,
    next: `kubectl apply -f ${MANIFEST}`,
  }
  const { address, node } = expectReadyPod(
    snapshot.find('Pod', WEB_NAMESPACE, MIRROR),
    MIRROR,
    texts,
  )
  const service = clusterService(snapshot, MIRROR, texts)
  return {
    address,
    node,
    service: { ...service, name: MIRROR, backends: [{ address, node, pod: MIRROR }] },
  }
}
