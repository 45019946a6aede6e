// Lab 10: the Service shop with its endpoints and their conditions, the template of its Pods, and
// the Pod client.

import * as z from 'zod'
import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import {
  allPodsWithLabel,
  clusterService,
  expectReadyPod,
  podsWithLabel,
  WEB_NAMESPACE,
} from '../../grading/expect-object.ts'
import { expectFound, expectThat } from '../../grading/failure.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { fromPod, type PodRequester } from '../../grading/requests.ts'
import { type NodeView, objectsOf, type Snapshot } from '../../grading/snapshot.ts'

const SHOP = 'shop'
const MANIFESTS = 'labs/10-connections/manifests'
/** Lists the endpoints of shop with their conditions. */
export const LIST_ENDPOINTS = `kubectl get endpointslices -l kubernetes.io/service-name=${SHOP} -o yaml`

/**
 * The command for requests of the Pod client over one connection, four in a second, in the
 * background.
 */
export const holdConnection = (word: string): string =>
  `kubectl exec client -- sh -c "curl -s -o /dev/null --connect-timeout 1 --rate 4/s 'http://$SHOP/?${word}[1-1800]' >/dev/null 2>&1 &"`

/** An endpoint of shop: its Pod, and what the EndpointSlice says about it. */
export interface ShopEndpoint {
  pod: string
  address: string
  node: string
  ready: boolean
  serving: boolean
  terminating: boolean
}

/** The Service shop with all its endpoints. */
export interface Shop {
  service: Service
  address: string
  port: number
  endpoints: ShopEndpoint[]
}

/** The Service shop; fails if it does not exist. */
export function shopService(snapshot: Snapshot): Shop {
  const found = clusterService(snapshot, SHOP, {
    expected: `the Service ${SHOP}`,
    next: `kubectl apply -f ${MANIFESTS}/shop.yaml`,
  })
  const pods = new Map(
    allPodsWithLabel(snapshot, SHOP).map(({ metadata, status }) => [status?.podIP, metadata.name]),
  )
  const endpoints = objectsOf(snapshot)
    .endpointSlices.filter(
      ({ namespace, serviceName }) => namespace === WEB_NAMESPACE && serviceName === SHOP,
    )
    .flatMap((slice) => slice.endpoints)
    .map(({ addresses, nodeName, ready, serving, terminating }) => {
      const address = addresses[0] ?? ''
      const pod = pods.get(address) ?? ''
      return { pod, address, node: nodeName ?? '', ready, serving, terminating }
    })
  return { ...found, endpoints }
}

/** The Pod client and its node; fails if it is not ready. */
export function shopClient(snapshot: Snapshot): { client: PodRequester; node: NodeView } {
  const pod = expectReadyPod(snapshot.find('Pod', WEB_NAMESPACE, 'client'), 'client', {
    inspect: 'kubectl get pod client',
    expected: 'a ready Pod client to send requests from',
    next: `kubectl apply -f ${MANIFESTS}/clients.yaml`,
  })
  return { client: fromPod('client', pod), node: snapshot.node(pod.node) }
}

/** The addresses of Pods to which a node's rules lead a new connection of the client. */
export function newConnectionsGoTo(snapshot: Snapshot): string[] {
  const { client, node } = shopClient(snapshot)
  const { outcomes } = traceOf(node, client.sender, shopService(snapshot))
  return outcomes.map(({ to }) => to.split(':')[0] ?? '')
}

const podSpec = z.object({
  spec: z.object({
    terminationGracePeriodSeconds: z.number().nullish(),
    containers: z.array(
      z.object({
        readinessProbe: z.looseObject({}).nullish(),
        lifecycle: z
          .object({
            preStop: z
              .looseObject({ sleep: z.object({ seconds: z.number() }).nullish() })
              .nullish(),
          })
          .nullish(),
      }),
    ),
  }),
})

/** What the Pods of shop say about their beginning and their end. */
interface PodLife {
  hasReadinessProbe: boolean
  /** How long a preStop hook sleeps; 0 without one. */
  preStopSeconds: number
  graceSeconds: number
}

/** Reads the Pods of shop that are not being deleted; fails if there is none. */
export function podLives(snapshot: Snapshot): [PodLife, ...PodLife[]] {
  const [first, ...others] = podsWithLabel(snapshot, SHOP).flatMap((pod): PodLife[] => {
    const { spec } = podSpec.safeParse(pod).data ?? {}
    const [container] = spec?.containers ?? []
    if (!container) return []
    return [
      {
        hasReadinessProbe: container.readinessProbe != null,
        preStopSeconds: container.lifecycle?.preStop?.sleep?.seconds ?? 0,
        graceSeconds: spec?.terminationGracePeriodSeconds ?? 30,
      },
    ]
  })
  const found = expectFound(first, {
    inspect: `kubectl get pods -l app=${SHOP}`,
    expected: `Pods of ${SHOP}`,
    next: `kubectl apply -f ${MANIFESTS}/shop.yaml`,
  })
  return [found, ...others]
}

/**
 * Every node runs iptables mode, and holds exactly what kube-proxy writes for the Services and
 * their endpoints.
 */
export function expectShopProgrammed(context: CheckContext): void {
  expectMode(context, 'iptables', {
    hint: 'This step is about iptables mode:',
    next: 'make iptables && make flush-nat',
  })
  expectNodes(context.nodes)
    .everything('iptables-save')
    .equalPrediction('iptables', 'exactly what follows from the Services and their endpoints')
}

/** At least this many Pods of shop are ready. */
export function expectReady({ endpoints }: Shop, count: number): void {
  const ready = endpoints.filter((endpoint) => endpoint.ready)
  expectThat(ready.length >= count, {
    inspect: LIST_ENDPOINTS,
    expected: `${count} ready endpoints of ${SHOP}`,
    actual: String(ready.length),
    next: `kubectl scale deployment ${SHOP} --replicas=${count}`,
  })
}
