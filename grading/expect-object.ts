import type { Endpoint, Service } from '../dataplane/objects.ts'
import { type ApiObject, hasCondition } from './api-object.ts'
import { type Expected, expectThat, type FailureDetail } from './failure.ts'
import { objectsOf, type Snapshot } from './snapshot.ts'
import { variantIn } from './variant.ts'

// Assertions about API objects, for checks. Each throws a failure with the kubectl command to
// inspect it, or returns if it holds.

/** The Pod exists, is ready, and has an address and a node. Returns them. */
export function expectReadyPod(pod: ApiObject | undefined, name: string, details: Expected) {
  const address = pod?.status?.podIP
  const node = pod?.spec?.nodeName
  const actual = pod
    ? `the Pod is ${pod.status?.phase ?? 'not started'} and not ready`
    : `no Pod ${name}`
  expectThat(pod && address && node && hasCondition(pod, 'Ready'), { actual, ...details })
  return { address, node }
}

/** The Pods of the default namespace with this app label. */
export const allPodsWithLabel = ({ items }: Snapshot, app: string): ApiObject[] =>
  items.filter(({ kind, metadata }) => kind === 'Pod' && metadata.labels?.app === app)

/** The Pods of the default namespace with this app label, without terminating ones. */
export const podsWithLabel = (snapshot: Snapshot, app: string): ApiObject[] =>
  allPodsWithLabel(snapshot, app).filter(({ metadata }) => metadata.deletionTimestamp == null)

/** Where the labs' objects are. */
export const WEB_NAMESPACE = 'default'

/** The Service web, for checks. */
export interface WebService {
  service: Service
  name: string
  address: string
  port: number
  backends: WebBackend[]
}

export interface WebBackend {
  address: string
  node: string
  pod: string
}

/** The Service web with its ready backends; fails when it does not exist or has no ClusterIP. */
export function webService(snapshot: Snapshot): WebService {
  const { name } = variantIn(snapshot)
  const found = clusterService(snapshot, name, {
    expected: `a Service ${name} in the default namespace with a ClusterIP and a port`,
    next: 'make web',
  })
  return { ...found, name, backends: readyBackends(snapshot, name) }
}

/**
 * A Service of the default namespace with its IPv4 ClusterIP and first port; fails when it lacks
 * one of them, or has too few ports.
 */
export function clusterService(
  snapshot: Snapshot,
  name: string,
  {
    inspect = `kubectl get service ${name}`,
    expected,
    ports = 1,
    ...advice
  }: { inspect?: string; expected: string; hint?: string; next?: string; ports?: number },
): { service: Service; address: string; port: number } {
  const service = findService(snapshot, name)
  const address = service?.clusterIPs.find((ip) => !ip.includes(':'))
  const port = service?.ports[0]?.port
  const actual =
    address === undefined
      ? `a Service of type ${service?.type} without a ClusterIP`
      : `${service?.ports.length} ports`
  expectThat(
    service && address !== undefined && port !== undefined && service.ports.length >= ports,
    {
      inspect,
      expected,
      ...advice,
      ...(service
        ? { actual }
        : { actual: 'no Service of that name', ...nearMiss(snapshot, name) }),
    },
  )
  return { service, address, port }
}

/** The Service in another namespace, or web under another name, if there is one. */
function nearMiss(snapshot: Snapshot, name: string): Partial<FailureDetail> | undefined {
  const { services } = objectsOf(snapshot)
  const elsewhere = services.find((service) => service.name === name)
  if (elsewhere)
    return {
      actual: `no Service of that name in namespace ${WEB_NAMESPACE}, but one in namespace "${elsewhere.namespace}"`,
      hint: `This lab works in namespace ${WEB_NAMESPACE}. What your kubectl uses without -n:`,
      next: "kubectl config view --minify -o jsonpath='{..namespace}'",
    }
  const named = services.find(
    ({ namespace, selector }) => namespace === WEB_NAMESPACE && selector?.app === 'web',
  )
  if (named === undefined || name !== variantIn(snapshot).name) return undefined
  return {
    actual: `no Service of that name, but "${named.name}", which selects the Pods with the label app=web`,
    hint: `The commands of this lab use the name ${name}: expose the Deployment once more under that name.`,
    next: `kubectl get service ${named.name} -o wide`,
  }
}

/** The Service of that name in the default namespace; undefined if there is none. */
export function findService(snapshot: Snapshot, name: string): Service | undefined {
  return objectsOf(snapshot).services.find(
    (service) => service.namespace === WEB_NAMESPACE && service.name === name,
  )
}

function readyBackends(snapshot: Snapshot, name: string): WebBackend[] {
  const objects = objectsOf(snapshot)
  const pods = new Map(
    snapshot.items.filter(({ kind }) => kind === 'Pod').map((pod) => [pod.status?.podIP, pod]),
  )
  return objects.endpointSlices
    .filter((slice) => slice.namespace === WEB_NAMESPACE && slice.serviceName === name)
    .filter((slice) => slice.addressType === 'IPv4')
    .flatMap((slice) => slice.endpoints)
    .filter(isServingEndpoint)
    .map((endpoint) => {
      const address = endpoint.addresses[0] ?? ''
      const pod = pods.get(address)
      return {
        address,
        node: endpoint.nodeName ?? pod?.spec?.nodeName ?? '',
        pod: pod?.metadata.name ?? '',
      }
    })
}

const isServingEndpoint = ({ ready, terminating }: Endpoint) => ready && !terminating
