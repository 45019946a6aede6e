import { hasLabels } from '../../dataplane/label-selector.ts'
import type { Api } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, createIndex, keyOf, remove, splitKey } from './context.ts'
import { controllerReference } from './ownership.ts'
import {
  type EndpointSlice,
  type EndpointSubset,
  type Endpoints,
  isReady,
  isTerminal,
  type Pod,
  type Service,
} from './resources.ts'
import { endpointsOf, planSlices, podSelector, type SliceContent } from './slice-plan.ts'

const headlessLabel = 'service.kubernetes.io/headless'
const managerLabel = 'endpointslice.kubernetes.io/managed-by'
const manager = 'endpointslice-controller.k8s.io'
const serviceLabel = 'kubernetes.io/service-name'
/** The time of the change that caused a slice update; this controller uses the time of writing. */
const triggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'

/**
 * Keeps the EndpointSlices of every Service with a selector equal to its Pods, and its Endpoints, for clients that still read
 * them. The garbage collector deletes the slices of a deleted Service.
 */
export function startEndpointsController(context: ControllerContext): void {
  const { api } = context
  const slicesOf = createIndex(context, 'endpointslices', ownServices)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const service = api.get<Service>('services', namespace, name)
    if (!service) remove(api, 'endpoints', splitKey(key))
    else if (!service.metadata.deletionTimestamp && podSelector(service)) {
      const contents = endpointsOf(api, service)
      writeSlices(api, service, slicesOf(key), contents)
      writeEndpoints(api, service, contents)
    }
  })

  const services = createIndex<Service>(context, 'services', ({ metadata }) => [metadata.namespace ?? ''])
  context.watch<Service>('services', ({ object }) => queue.add(keyOf(object)))
  context.watch<Pod>('pods', ({ type, object, previous }) => {
    if (type === 'MODIFIED' && previous && sameJson(view(previous), view(object))) return
    for (const service of services(object.metadata.namespace ?? '')) {
      const selector = podSelector(service)
      const isSelected = (pod: Pod | undefined) => selector && pod && hasLabels(pod.metadata.labels, selector)
      if (isSelected(object) || isSelected(previous)) queue.add(keyOf(service))
    }
  })
  // Restores slices that other clients changed or deleted.
  context.watch<EndpointSlice>('endpointslices', ({ type, object, previous }) => {
    if (type === 'ADDED' && !previous) return
    for (const slice of previous ? [previous, object] : [object])
      for (const service of ownServices(slice)) queue.add(service)
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

/** The key of the Service for which this controller made the slice, if it did. */
function ownServices({ metadata: { namespace, labels } }: EndpointSlice): string[] {
  const service = labels?.[serviceLabel]
  return service && labels?.[managerLabel] === manager ? [`${namespace}/${service}`] : []
}

const isHeadless = ({ spec }: Service): boolean => spec.clusterIP === 'None'

function writeSlices(
  api: Api,
  service: Service,
  existing: readonly EndpointSlice[],
  contents: readonly SliceContent[],
): void {
  const { namespace, name } = service.metadata
  const { [headlessLabel]: _headless, ...own } = service.metadata.labels ?? {}
  const labels = {
    ...own,
    [managerLabel]: manager,
    [serviceLabel]: name,
    ...(isHeadless(service) && { [headlessLabel]: '' }),
  }
  const annotations = { [triggerTime]: new Date().toISOString() }
  const byName = existing.toSorted((left, right) => (left.metadata.name < right.metadata.name ? -1 : 1))
  for (const { slice, content } of planSlices(byName, contents)) {
    if (!content) {
      if (slice) remove(api, 'endpointslices', slice.metadata)
    } else if (!slice) {
      const ownerReferences = [controllerReference(service)]
      const metadata = { generateName: `${name}-`, labels, annotations, ownerReferences }
      api.create('endpointslices', namespace, { metadata, addressType: 'IPv4', ...content })
    } else {
      const { metadata, endpoints, ports } = slice
      if (sameJson([endpoints, ports, metadata.labels], [content.endpoints, content.ports, labels])) continue
      const changed = { ...metadata, labels, annotations: { ...metadata.annotations, ...annotations } }
      api.update('endpointslices', { ...slice, ...content, metadata: changed })
    }
  }
}

function writeEndpoints(api: Api, service: Service, contents: readonly SliceContent[]): void {
  const { namespace, name } = service.metadata
  const subsets = contents.flatMap((content) => subsetOf(content, service))
  const labels = { ...service.metadata.labels, ...(isHeadless(service) && { [headlessLabel]: '' }) }
  const current = api.get<Endpoints>('endpoints', namespace, name)
  if (!current) api.create('endpoints', namespace, { metadata: { name, labels }, subsets })
  else if (!sameJson([current.metadata.labels ?? {}, current.subsets ?? []], [labels, subsets]))
    api.update<Endpoints>('endpoints', { ...current, subsets, metadata: { ...current.metadata, labels } })
}

/** The addresses of one group of ports, ready and not ready apart; Pods being deleted are left out unless they are ready. */
function subsetOf({ ports, endpoints }: SliceContent, service: Service): EndpointSubset[] {
  const shown = endpoints.filter(({ conditions }) => conditions?.ready || !conditions?.terminating)
  if (shown.length === 0 || (ports.length === 0 && !isHeadless(service))) return []
  const addresses = (isReady: boolean) =>
    shown
      .filter(({ conditions }) => conditions?.ready === isReady)
      .map(({ addresses: [ip = ''], conditions: _conditions, ...own }) => ({ ip, ...own }))
  const [ready, notReady] = [addresses(true), addresses(false)]
  return [
    {
      ...(ready.length > 0 && { addresses: ready }),
      ...(notReady.length > 0 && { notReadyAddresses: notReady }),
      // Here, unlike in slices, an unnamed port has no name at all.
      ...(ports.length > 0 && { ports: ports.map(({ name, ...port }) => (name ? { name, ...port } : port)) }),
    },
  ]
}

/** The address of the API server for Pods and nodes. */
export interface ApiServerEndpoint {
  ip: string
  port: number
}

/**
 * Creates the endpoints of the Service `kubernetes`, which selects no Pods, as kube-apiserver does: one Endpoints and one
 * EndpointSlice of the Service's name that no controller manages.
 */
export function createKubernetesEndpoints(api: Api, { ip, port }: ApiServerEndpoint): void {
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
