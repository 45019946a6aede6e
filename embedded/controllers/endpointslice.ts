import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, createIndex, remove } from './context.ts'
import { controllerReference } from './ownership.ts'
import {
  type Endpoint,
  type EndpointSlice,
  isReady,
  isTerminating,
  type Node,
  type Pod,
  type Service,
} from './resources.ts'
import {
  groupByPorts,
  headlessLabel,
  hostnameIn,
  isHeadless,
  planSlices,
  podSelector,
  podsOf,
  portsOn,
  watchServicesAndPods,
} from './slice-plan.ts'

const managerLabel = 'endpointslice.kubernetes.io/managed-by'
const manager = 'endpointslice-controller.k8s.io'
const serviceLabel = 'kubernetes.io/service-name'
/** The time of the change that caused a slice update; this controller uses the time of writing. */
const triggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'
const zoneLabel = 'topology.kubernetes.io/zone'

/** Keeps the EndpointSlices of every Service with a selector equal to its Pods. */
export function startEndpointSliceController(context: ControllerContext): void {
  const { api } = context
  const slicesOf = createIndex(context, 'endpointslices', ownServices)

  const queue = context.reconcile<Service>('services', (service, key) => {
    // The garbage collector deletes the slices of a deleted Service; those of a Service without a selector are not
    // changed.
    if (service.metadata.deletionTimestamp || !podSelector(service)) return
    const existing = slicesOf(key).sort((left, right) => (left.metadata.name < right.metadata.name ? -1 : 1))
    const endpoints = podsOf(context, service).map((pod) => ({
      ports: portsOn(pod, service),
      endpoint: toEndpoint(context, pod, service),
    }))
    const plan = planSlices(existing, groupByPorts(endpoints))
    const { namespace, name } = service.metadata
    const labels = labelsOf(service)
    const annotations = { [triggerTime]: new Date().toISOString() }
    for (const content of plan.create) {
      const ownerReferences = [controllerReference(service)]
      const metadata = { generateName: `${name}-`, labels, annotations, ownerReferences }
      api.create('endpointslices', namespace, { metadata, addressType: 'IPv4', ...content })
    }
    const updates = new Map(plan.update.map(({ slice, content }) => [slice, content]))
    for (const slice of existing) {
      const content = updates.get(slice)
      if (plan.remove.includes(slice)) remove(api, 'endpointslices', slice.metadata)
      else if (content) {
        const metadata = { ...slice.metadata, labels, annotations: { ...slice.metadata.annotations, ...annotations } }
        api.update('endpointslices', { ...slice, ...content, metadata })
      } else if (!sameJson(slice.metadata.labels, labels))
        api.update('endpointslices', { ...slice, metadata: { ...slice.metadata, labels } })
    }
  })

  watchServicesAndPods(context, queue)
  // Restores slices that other clients changed or deleted.
  context.watch<EndpointSlice>('endpointslices', ({ type, object, previous }) => {
    if (type === 'ADDED' && !previous) return
    for (const slice of previous ? [previous, object] : [object])
      for (const service of ownServices(slice)) queue.add(service)
  })
}

/** The key of the Service for which this controller made the slice, if it did. */
function ownServices({ metadata: { namespace, labels } }: EndpointSlice): string[] {
  const service = labels?.[serviceLabel]
  return service && labels?.[managerLabel] === manager ? [`${namespace}/${service}`] : []
}

/**
 * A Pod as an endpoint. `serving` is the Pod's readiness, `ready` leaves out Pods being deleted, unless the Service
 * publishes addresses that are not ready.
 */
function toEndpoint({ api }: ControllerContext, pod: Pod, service: Service): Endpoint {
  const { namespace, name, uid } = pod.metadata
  const { nodeName } = pod.spec
  const serving = isReady(pod)
  const terminating = isTerminating(pod)
  const ready = service.spec.publishNotReadyAddresses === true || (serving && !terminating)
  const hostname = hostnameIn(pod, service)
  const zone = nodeName && api.get<Node>('nodes', undefined, nodeName)?.metadata.labels?.[zoneLabel]
  return {
    addresses: [pod.status?.podIP ?? ''],
    conditions: { ready, serving, terminating },
    ...(hostname && { hostname }),
    ...(nodeName && { nodeName }),
    targetRef: { kind: 'Pod', name, uid, ...(namespace && { namespace }) },
    ...(zone && { zone }),
  }
}

/**
 * The Service's labels, so that its slices can be selected like the Service, and the labels that identify the
 * Service and the controller.
 */
function labelsOf(service: Service): Record<string, string> {
  const { labels = {}, name } = service.metadata
  const reserved = [serviceLabel, managerLabel, headlessLabel]
  const own = Object.entries(labels).filter(([label]) => !reserved.includes(label))
  return {
    ...Object.fromEntries(own),
    [managerLabel]: manager,
    [serviceLabel]: name,
    ...(isHeadless(service) && { [headlessLabel]: '' }),
  }
}
