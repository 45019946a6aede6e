import { hasCondition } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectAnswered } from '../../grading/expect-traffic.ts'
import { fail } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { findService, WEB_NAMESPACE, type WebService } from '../../grading/web-service.ts'
import { loggedRequests, newToken, separateRequests } from '../02-ipvs/web-requests.ts'
import { mustRunIptables } from './iptables-mode.ts'

const NAME = 'mirror'
const MANIFEST = 'labs/01-iptables/manifests/three-services.yaml'

/**
 * Each endpoint chain marks what its own endpoint sends, and a Pod that reaches itself through its Service sees another
 * client than itself.
 */
export async function podReachesItself({ nodes, snapshot, live }: CheckContext): Promise<void> {
  mustRunIptables(nodes)
  const { address, node, service } = mirrorOf(snapshot)
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
  expectNodes(nodes)
    .chainsWhere(
      'nat',
      (chain) => chain.startsWith('KUBE-SEP-') || chain === 'KUBE-MARK-MASQ' || chain === 'KUBE-POSTROUTING',
      'iptables-save -t nat | grep -e KUBE-SEP- -e KUBE-MARK-MASQ -e KUBE-POSTROUTING',
    )
    .equalPrediction(
      'iptables',
      'in each KUBE-SEP- chain a rule that marks what comes from its own endpoint, before the DNAT',
    )
  expectNode(snapshot.node(node)).packetReaches(
    { pod: address },
    service,
    { backends: [address], masqueraded: true },
    {
      look: () => `make trace FROM=pod/${NAME} TO=svc/${NAME}:${service.port}`,
      expected: `the packet of Pod ${NAME} at ${address}, itself, with its source replaced`,
    },
  )
  if (!live) return
  const token = newToken()
  const { stdout } = await live.inPod({ namespace: WEB_NAMESPACE, name: NAME }, separateRequests(service, token, 1))
  expectAnswered(
    readReplies(stdout),
    1,
    { snapshot, node, sender: { pod: address }, target: service },
    {
      look: `kubectl exec ${NAME} -- curl -sS --max-time 5 http://${service.address}:${service.port}`,
      expected: `an answer of the Pod ${NAME} to itself`,
    },
  )
  const itself = (await loggedRequests(live, service, token, 1)).find(({ client }) => client === address)
  if (itself)
    fail({
      node,
      look: `kubectl logs ${NAME} --tail=1`,
      expected: 'another client than the Pod itself in its log',
      actual: `${address}, the Pod's own address`,
    })
}

/** The Pod mirror and its Service, whose one endpoint it is. */
function mirrorOf(snapshot: Snapshot): { address: string; node: string; service: WebService } {
  const pod = snapshot.find('Pod', WEB_NAMESPACE, NAME)
  const address = pod?.status?.podIP
  const node = pod?.spec?.nodeName
  const service = findService(snapshot, NAME)
  const clusterIP = service?.clusterIPs.find((ip) => !ip.includes(':'))
  const port = service?.ports[0]?.port
  if (!pod || !hasCondition(pod, 'Ready') || !address || !node || clusterIP === undefined || port === undefined)
    fail({
      look: `kubectl get pods,services -l app=${NAME} -o wide`,
      expected: `a Pod ${NAME} that is ready, and a Service ${NAME} in front of it`,
      actual: pod && service ? 'they are not ready yet' : `no ${pod ? 'Service' : 'Pod'} of that name`,
      hint: `kubectl apply -f ${MANIFEST}`,
    })
  return { address, node, service: { name: NAME, address: clusterIP, port, backends: [{ address, node, pod: NAME }] } }
}
