// Where lab 11 judges requests: web with the zones of its Pods, and a client in each of two zones.

import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import {
  expectReadyPod,
  WEB_NAMESPACE,
  type WebBackend,
  type WebService,
  webService,
} from '../../grading/expect-object.ts'
import { expectThat } from '../../grading/failure.ts'
import { fromPod, type PodRequester } from '../../grading/requests.ts'
import { type NodeView, objectsOf, type Snapshot } from '../../grading/snapshot.ts'

export const ZONE = 'topology.kubernetes.io/zone'
const MANIFEST = 'labs/11-which-pod/manifests/clients.yaml'
export const LIST_PODS = 'kubectl get pods -l app=web -o wide'

/** A client Pod, its node, and the zone of the node. */
export interface ZoneClient {
  client: PodRequester
  node: NodeView
  zone: string
}

/** web, and its two clients. */
export interface ZoneClients {
  service: WebService
  near: ZoneClient
  far: ZoneClient
}

/** The zone of a node by its label; empty without one. */
export const zoneOfNode = (snapshot: Snapshot, node: string): string =>
  objectsOf(snapshot).nodes.find(({ name }) => name === node)?.labels[ZONE] ?? ''

function zoneClient({ snapshot }: CheckContext, name: string): ZoneClient {
  const pod = expectReadyPod(snapshot.find('Pod', WEB_NAMESPACE, name), name, {
    inspect: 'kubectl get pods -l app=client -o wide',
    expected: `a Pod ${name} that is ready to send requests`,
    next: `kubectl apply -f ${MANIFEST}`,
  })
  const zone = zoneOfNode(snapshot, pod.node)
  expectThat(zone !== '', {
    inspect: `kubectl get nodes -L ${ZONE}`,
    expected: `a label ${ZONE} on ${pod.node}, the node of ${name}`,
    actual: 'none',
    hint: 'Give it the name of a zone:',
    next: `kubectl label node ${pod.node} ${ZONE}=zone-a`,
  })
  return { client: fromPod(name, pod), node: snapshot.node(pod.node), zone }
}

/** web and the clients, which must be ready and in different zones. */
export function zoneClients(context: CheckContext): ZoneClients {
  const service = webService(context.snapshot)
  const [near, far] = [zoneClient(context, 'client'), zoneClient(context, 'client-b')]
  expectThat(near.zone !== far.zone, {
    inspect: `kubectl get nodes -L ${ZONE}`,
    expected: 'the Pods client and client-b on nodes of two zones',
    actual: `both in ${near.zone}`,
    next: `kubectl delete pod client client-b && kubectl apply -f ${MANIFEST}`,
  })
  return { service, near, far }
}

/** The Pods of web in the zone of a client, and in all other zones. */
export function backendsByZone(
  snapshot: Snapshot,
  { backends }: WebService,
  { zone }: Pick<ZoneClient, 'zone'>,
): { own: WebBackend[]; others: WebBackend[] } {
  const isOwn = ({ node }: WebBackend) => zoneOfNode(snapshot, node) === zone
  return { own: backends.filter(isOwn), others: backends.filter((one) => !isOwn(one)) }
}

/**
 * web has a ready Pod on the nodes of both clients, and on another node in the zone of the first.
 */
export const podsOnEveryNode = onceSeen('stage', async (context) => {
  const { service, near, far } = zoneClients(context)
  const has = ({ node }: ZoneClient) =>
    service.backends.some((backend) => backend.node === node.name)
  const { own } = backendsByZone(context.snapshot, service, near)
  const isSpread = has(near) && has(far) && own.some(({ node }) => node !== near.node.name)
  expectThat(isSpread, {
    inspect: LIST_PODS,
    expected: `ready Pods of ${service.name} on ${near.node.name}, on ${far.node.name}, and on another node of ${near.zone}`,
    actual: service.backends.map(({ node }) => `one on ${node}`).join(', ') || 'no ready Pod',
    hint: 'If two Pods are on one node, delete one of them. The patch that lets them run on every node:',
    next: `kubectl patch deployment ${service.name} --patch-file labs/11-which-pod/manifests/every-node.yaml`,
  })
  return {}
})
