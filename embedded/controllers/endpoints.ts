import { hasLabels } from '../../dataplane/label-selector.ts'
import type { Api } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, keyOf, splitKey } from './context.ts'
import { zoneOf } from './endpoint-hints.ts'
import { controllerReference } from './ownership.ts'
import {
  type EndpointSliceObject,
  type Endpoints,
  hasReadyCondition,
  isTerminal,
  type NodeObject,
  type Pod,
  type ServiceObject,
} from './resources.ts'
import { endpointsOf, planSlices, podSelector, type SliceContent } from './slice-plan.ts'

const headlessLabel = 'service.kubernetes.io/headless'
const managerLabel = 'endpointslice.kubernetes.io/managed-by'
const manager = 'endpointslice-controller.k8s.io'
const serviceLabel = 'kubernetes.io/service-name'
/** The time of the change that caused a slice update; this controller uses the time of writing. */
const triggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'

/**
 * Keeps the EndpointSlices of every Service with a selector equal to its Pods, and its Endpoints,
 * for clients that still read them.
 */
export function startEndpointsController(context: ControllerContext): void {
  const { api } = context

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const service = api.get<ServiceObject>('services', namespace, name)
    const selector = service && podSelector(service)
    if (!service && api.get('endpoints', namespace, name)) api.delete('endpoints', namespace, name)
    if (!selector || service.metadata.deletionTimestamp) return
    const contents = endpointsOf(api, service, selector)
    const slices = api.store
      .all<EndpointSliceObject>('endpointslices')
      .filter((slice) => ownService(slice) === key)
    writeSlices(api, service, slices, contents)
    writeEndpoints(api, service, contents)
  })

  context.watch<ServiceObject>('services', (_type, service) => queue.add(keyOf(service)))
  context.watch<Pod>('pods', (type, pod, previous) => {
    if (type === 'MODIFIED' && previous && sameJson(view(previous), view(pod))) return
    for (const service of api.store.all<ServiceObject>('services')) {
      if (service.metadata.namespace !== pod.metadata.namespace) continue
      const selector = podSelector(service)
      const isSelected = (state: Pod | undefined) =>
        selector && state && hasLabels(state.metadata.labels, selector)
      if (isSelected(pod) || isSelected(previous)) queue.add(keyOf(service))
    }
  })
  // The zone of an endpoint is a label of its node. A genuine controller reads it at the next
  // change of the Service or its Pods; here it follows at once, so that the label and the hints of
  // a learner's cluster agree.
  context.watch<NodeObject>('nodes', (_type, node, previous) => {
    if (previous && zoneOf(previous) === zoneOf(node)) return
    for (const service of api.store.all<ServiceObject>('services')) queue.add(keyOf(service))
  })
  // Restores slices that other clients changed or deleted.
  context.watch<EndpointSliceObject>('endpointslices', (type, object, previous) => {
    if (type === 'ADDED') return
    for (const slice of previous ? [previous, object] : [object]) {
      const service = ownService(slice)
      if (service) queue.add(service)
    }
  })
}

/** The properties of a Pod that affect its endpoint. */
function view(pod: Pod) {
  const { metadata, spec, status } = pod
  const { nodeName, hostname, subdomain, containers } = spec
  const ports = containers.map((container) => container.ports)
  const { labels, deletionTimestamp } = metadata
  return [
    labels,
    deletionTimestamp,
    isTerminal(pod),
    hasReadyCondition(pod),
    status?.podIP,
    nodeName,
    hostname,
    subdomain,
    ports,
  ]
}

/** The key of the Service for which this controller made the slice, if it did. */
function ownService({ metadata: { namespace, labels } }: EndpointSliceObject): string | undefined {
  const service = labels?.[serviceLabel]
  return service && labels?.[managerLabel] === manager ? `${namespace}/${service}` : undefined
}

const isHeadless = ({ spec }: ServiceObject): boolean => spec.clusterIP === 'None'

/**
 * The labels of both kinds of objects: the Service's own, and whether it is headless, by which
 * kube-proxy selects.
 */
const labelsOf = (service: ServiceObject) => ({
  ...service.metadata.labels,
  ...(isHeadless(service) && { [headlessLabel]: '' }),
})

function writeSlices(
  api: Api,
  service: ServiceObject,
  existing: readonly EndpointSliceObject[],
  contents: readonly SliceContent[],
): void {
  const { namespace, name } = service.metadata
  const labels = { ...labelsOf(service), [managerLabel]: manager, [serviceLabel]: name }
  const annotations = { [triggerTime]: new Date().toISOString() }
  const byName = existing.toSorted((left, right) =>
    left.metadata.name < right.metadata.name ? -1 : 1,
  )
  const { wanted, surplus } = planSlices(byName, contents)
  for (const { slice, content } of wanted) {
    if (!slice) {
      const ownerReferences = [controllerReference(service)]
      const metadata = { generateName: `${name}-`, labels, annotations, ownerReferences }
      api.create('endpointslices', namespace, { metadata, addressType: 'IPv4', ...content })
      continue
    }
    const { metadata, endpoints, ports } = slice
    if (sameJson([endpoints, ports, metadata.labels], [content.endpoints, content.ports, labels]))
      continue
    const changed = {
      ...metadata,
      labels,
      annotations: { ...metadata.annotations, ...annotations },
    }
    api.update('endpointslices', { ...slice, ...content, metadata: changed })
  }
  for (const { metadata } of surplus) api.delete('endpointslices', namespace, metadata.name)
}

function writeEndpoints(api: Api, service: ServiceObject, contents: readonly SliceContent[]): void {
  const { namespace, name } = service.metadata
  const subsets = contents.flatMap((content) => subsetOf(content, service))
  const labels = labelsOf(service)
  const current = api.get<Endpoints>('endpoints', namespace, name)
  if (!current) api.create('endpoints', namespace, { metadata: { name, labels }, subsets })
  else
    api.update<Endpoints>('endpoints', {
      ...current,
      subsets,
      metadata: { ...current.metadata, labels },
    })
}

/**
 * The addresses of one group of ports, ready and not ready apart; Pods being deleted are left out
 * unless they are ready.
 */
function subsetOf(
  { ports, endpoints }: SliceContent,
  service: ServiceObject,
): NonNullable<Endpoints['subsets']> {
  const shown = endpoints.filter(({ conditions }) => conditions?.ready || !conditions?.terminating)
  if (shown.length === 0 || (ports.length === 0 && !isHeadless(service))) return []
  const addresses = (isReady: boolean) =>
    shown
      .filter(({ conditions }) => conditions?.ready === isReady)
      .map(({ addresses: [ip = ''], hostname, nodeName, targetRef }) => {
        return { ip, hostname, nodeName, targetRef }
      })
  const [ready, notReady] = [addresses(true), addresses(false)]
  // Here, unlike in slices, an unnamed port has no name at all.
  const named = ports.map(({ name, ...port }) => ({ name: name || undefined, ...port }))
  const filled = <T>(list: T[]) => (list.length > 0 ? list : undefined)
  return [{ addresses: filled(ready), notReadyAddresses: filled(notReady), ports: filled(named) }]
}

/**
 * Creates Endpoints and EndpointSlice of the Service `kubernetes`, as kube-apiserver does; no
 * controller manages them.
 */
export function createKubernetesEndpoints(
  api: Api,
  { ip, port }: { ip: string; port: number },
): void {
  const name = 'kubernetes'
  const ports = [{ name: 'https', port, protocol: 'TCP' }]
  api.create('endpoints', 'default', {
    metadata: { name, labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
    subsets: [{ addresses: [{ ip }], ports }],
  })
  api.create('endpointslices', 'default', {
    metadata: { name, labels: { [serviceLabel]: name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [ip], conditions: { ready: true } }],
    ports,
  })
}
