import { hasLabels, type Labels } from '../../dataplane/label-selector.ts'
import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, createIndex, keyOf, type Workqueue } from './context.ts'
import {
  type Endpoint,
  type EndpointSlice,
  isReady,
  isTerminal,
  type Pod,
  type Service,
  type SlicePort,
} from './resources.ts'

// Shared by the two endpoint controllers: the Pods and ports of a Service, and the changes that may affect them.

/** The selector by which the Service finds its Pods; undefined for a Service without a selector, whose endpoints are managed elsewhere. */
export function podSelector({ spec }: Service): Labels | undefined {
  if (spec.type === 'ExternalName' || !spec.selector || Object.keys(spec.selector).length === 0) return undefined
  return spec.selector
}

export const headlessLabel = 'service.kubernetes.io/headless'

export function isHeadless({ spec }: Service): boolean {
  return spec.clusterIP === 'None'
}

/** The Pods that may become endpoints: selected, not ended, with an address. */
export function podsOf({ api }: ControllerContext, service: Service): Pod[] {
  const selector = podSelector(service)
  const { namespace } = service.metadata
  if (!selector || namespace === undefined) return []
  return api
    .list<Pod>('pods', { namespace })
    .filter((pod) => hasLabels(pod.metadata.labels, selector) && !isTerminal(pod) && pod.status?.podIP)
}

/**
 * The Service's ports on one Pod. A named target port is resolved to the port of the Pod's containers with this name
 * and protocol; a port with an unknown name is left out.
 */
export function portsOn(pod: Pod, service: Service): SlicePort[] {
  return (service.spec.ports ?? []).flatMap(({ name = '', port, protocol = 'TCP', targetPort = port, appProtocol }) => {
    const number = typeof targetPort === 'number' ? targetPort : namedPort(pod, targetPort, protocol)
    return number === undefined ? [] : [{ name, port: number, protocol, ...(appProtocol && { appProtocol }) }]
  })
}

function namedPort(pod: Pod, name: string, protocol: string): number | undefined {
  const sidecars = (pod.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  return [...pod.spec.containers, ...sidecars]
    .flatMap(({ ports = [] }) => ports)
    .find((port) => port.name === name && (port.protocol ?? 'TCP') === protocol)?.containerPort
}

/** The DNS name of a Pod behind a headless Service that has the name of the Pod's subdomain. */
export function hostnameIn({ spec, metadata }: Pod, service: Service): string | undefined {
  const same = spec.subdomain === service.metadata.name && metadata.namespace === service.metadata.namespace
  return same ? spec.hostname : undefined
}

/** Queues every Service whose endpoints a change of a Service or a Pod may affect. */
export function watchServicesAndPods(context: ControllerContext, queue: Workqueue): void {
  const services = createIndex<Service>(context, 'services', ({ metadata }) => [metadata.namespace ?? ''])
  context.watch<Service>('services', ({ object }) => queue.add(keyOf(object)))
  context.watch<Pod>('pods', ({ type, object, previous }) => {
    if (type === 'MODIFIED' && previous && sameJson(view(previous), view(object))) return
    for (const service of services(object.metadata.namespace ?? '')) {
      const selector = podSelector(service)
      if (!selector) continue
      const selected = [object, previous].some((pod) => pod && hasLabels(pod.metadata.labels, selector))
      if (selected) queue.add(keyOf(service))
    }
  })
}

/** The properties of a Pod that affect its endpoint. */
function view(pod: Pod) {
  const { metadata, spec, status } = pod
  const { nodeName, hostname, subdomain, containers } = spec
  const ports = containers.map((container) => container.ports)
  const { labels, deletionTimestamp } = metadata
  return [labels, deletionTimestamp, isTerminal(pod), isReady(pod), status?.podIP, nodeName, hostname, subdomain, ports]
}

/** endpointslice-controller's --max-endpoints-per-slice. */
export const maxEndpointsPerSlice = 100

/** Endpoints that listen on the same ports. */
export interface SliceContent {
  ports: SlicePort[]
  endpoints: Endpoint[]
}

export interface SlicePlan {
  create: SliceContent[]
  update: { slice: EndpointSlice; content: SliceContent }[]
  remove: EndpointSlice[]
}

/** Equal for the same ports in any order. */
export function portsKey(ports: readonly SlicePort[]): string {
  return ports
    .map(({ name, port, protocol, appProtocol = '' }) => `${name} ${protocol} ${port} ${appProtocol}`)
    .sort()
    .join()
}

/** The identity of an endpoint: an address of one object. */
function endpointKey({ addresses, targetRef }: Endpoint): string {
  return `${targetRef?.uid ?? ''} ${addresses.join(' ')}`
}

/** Groups endpoints by the ports they listen on. */
export function groupByPorts(endpoints: readonly { ports: SlicePort[]; endpoint: Endpoint }[]): SliceContent[] {
  const groups = new Map<string, SliceContent>()
  for (const { ports, endpoint } of endpoints) {
    const key = portsKey(ports)
    const group = groups.get(key)
    if (group) group.endpoints.push(endpoint)
    else groups.set(key, { ports, endpoints: [endpoint] })
  }
  return [...groups.values()]
}

/**
 * Plans the changes after which `existing` slices (of one Service) contain `wanted`, like the reconciler of
 * k8s.io/endpointslice: endpoints stay in their slice; the others are added to slices that must be written anyway, then to
 * one slice with enough space, else to new slices. A slice to remove is reused if possible, and a Service without
 * endpoints keeps one empty slice.
 */
export function planSlices(existing: readonly EndpointSlice[], wanted: readonly SliceContent[]): SlicePlan {
  const plan: SlicePlan = { create: [], update: [], remove: [] }
  const contents = wanted.length > 0 ? wanted : [{ ports: [], endpoints: [] }]
  const keys = contents.map(({ ports }) => portsKey(ports))
  plan.remove.push(...existing.filter(({ ports }) => !keys.includes(portsKey(ports ?? []))))
  for (const [index, content] of contents.entries()) {
    const ofGroup = existing.filter(({ ports }) => portsKey(ports ?? []) === keys[index])
    planGroup(plan, ofGroup, content)
  }
  while (plan.create.length > 0 && plan.remove.length > 0) {
    const [content, slice] = [plan.create.shift(), plan.remove.shift()]
    if (content && slice) plan.update.push({ slice, content })
  }
  return plan
}

function planGroup(plan: SlicePlan, existing: readonly EndpointSlice[], { ports, endpoints }: SliceContent) {
  const missing = new Map(endpoints.map((endpoint) => [endpointKey(endpoint), endpoint]))
  const kept = existing.map((slice) => {
    const stay = (slice.endpoints ?? []).flatMap((endpoint) => {
      const now = missing.get(endpointKey(endpoint))
      missing.delete(endpointKey(endpoint))
      return now ?? []
    })
    return { slice, endpoints: stay, changed: !sameJson(stay, slice.endpoints ?? []) }
  })
  const left = [...missing.values()]
  for (const { changed, endpoints: own } of kept)
    if (changed) own.push(...left.splice(0, maxEndpointsPerSlice - own.length))
  while (left.length >= maxEndpointsPerSlice)
    plan.create.push({ ports, endpoints: left.splice(0, maxEndpointsPerSlice) })
  const fullestFirst = kept.toSorted((one, other) => other.endpoints.length - one.endpoints.length)
  const roomy = fullestFirst.find(({ endpoints: own }) => own.length + left.length <= maxEndpointsPerSlice)
  if (left.length > 0 && roomy) {
    roomy.endpoints.push(...left)
    roomy.changed = true
  } else if (left.length > 0) plan.create.push({ ports, endpoints: left })
  const filled = kept.filter(({ endpoints: own }) => own.length > 0)
  // A Service without endpoints keeps one empty slice.
  const placeholder = endpoints.length === 0 && ports.length === 0 ? kept.slice(0, 1) : []
  if (endpoints.length === 0 && kept.length === 0) plan.create.push({ ports, endpoints })
  for (const entry of kept) {
    const content = { ports, endpoints: entry.endpoints }
    if (!filled.includes(entry) && !placeholder.includes(entry)) plan.remove.push(entry.slice)
    else if (entry.changed) plan.update.push({ slice: entry.slice, content })
  }
}
