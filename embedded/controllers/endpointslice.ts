import { isIP } from 'node:net'
import { sameJson } from '../apiserver/json.ts'
import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, createIndex, splitKey } from './context.ts'
import { controllerReference } from './ownership.ts'
import {
  type AddressType,
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
  hostnameIn,
  isHeadless,
  planSlices,
  podSelector,
  podsOf,
  portsOn,
  type SliceContent,
  watchServicesAndPods,
} from './slice-plan.ts'

const managerLabel = 'endpointslice.kubernetes.io/managed-by'
const manager = 'endpointslice-controller.k8s.io'
const serviceLabel = 'kubernetes.io/service-name'
const headlessLabel = 'service.kubernetes.io/headless'
/** The time of the change that caused a slice update; this controller uses the time of writing. */
const triggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'
const zoneLabel = 'topology.kubernetes.io/zone'

/** Keeps the EndpointSlices of every Service with a selector equal to its Pods. */
export function startEndpointSliceController(context: ControllerContext): void {
  const { api } = context
  const slicesOf = createIndex<EndpointSlice>(context, 'endpointslices', ownService)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const service = api.get<Service>('services', namespace, name)
    // The garbage collector deletes the slices of a deleted Service; those of a Service without a selector are not
    // changed.
    if (!service || service.metadata.deletionTimestamp || !podSelector(service)) return
    const pods = podsOf(context, service)
    const families = addressTypes(service)
    const existing = slicesOf.get(key)
    for (const slice of existing) if (!families.includes(slice.addressType)) remove(slice)
    for (const family of families) {
      const ofFamily = existing.filter(({ addressType }) => addressType === family).sort(byName)
      const endpoints = pods.flatMap((pod) => {
        const address = addressOf(pod, family)
        return address ? [{ ports: portsOn(pod, service), endpoint: toEndpoint(context, pod, service, address) }] : []
      })
      write(service, family, ofFamily, groupByPorts(endpoints))
    }
  })

  function write(service: Service, addressType: AddressType, existing: EndpointSlice[], wanted: SliceContent[]) {
    const plan = planSlices(existing, wanted)
    const labels = labelsOf(service)
    const { namespace, name } = service.metadata
    const annotations = { [triggerTime]: new Date().toISOString() }
    for (const content of plan.create) {
      api.create('endpointslices', namespace, {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: {
          generateName: `${name}-`,
          ...(namespace && { namespace }),
          labels,
          annotations,
          ownerReferences: [controllerReference(service)],
        },
        addressType,
        ...content,
      })
    }
    const touched = new Set(plan.remove.map(({ metadata }) => metadata.uid))
    for (const { slice, content } of plan.update) {
      touched.add(slice.metadata.uid)
      const metadata = { ...slice.metadata, labels, annotations: { ...slice.metadata.annotations, ...annotations } }
      api.update('endpointslices', { ...slice, ...content, metadata })
    }
    for (const slice of existing) {
      if (touched.has(slice.metadata.uid) || sameJson(slice.metadata.labels, labels)) continue
      api.update('endpointslices', { ...slice, metadata: { ...slice.metadata, labels } })
    }
    for (const slice of plan.remove) remove(slice)
  }

  function remove({ metadata: { namespace, name } }: EndpointSlice) {
    try {
      api.delete('endpointslices', namespace, name)
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  }

  watchServicesAndPods(context, queue)
  // Restores slices that other clients changed or deleted.
  context.watch<EndpointSlice>('endpointslices', ({ type, object, previous }) => {
    const services = new Set([ownService(object), previous && ownService(previous)])
    for (const service of services) if (service && (type !== 'ADDED' || previous)) queue.add(service)
  })
}

function ownService({ metadata: { namespace, labels } }: EndpointSlice): string | undefined {
  const service = labels?.[serviceLabel]
  return service && labels?.[managerLabel] === manager ? `${namespace}/${service}` : undefined
}

function byName(left: EndpointSlice, right: EndpointSlice): number {
  return left.metadata.name < right.metadata.name ? -1 : 1
}

function addressTypes({ spec }: Service): AddressType[] {
  const families = (spec.ipFamilies ?? []).filter((family) => family === 'IPv4' || family === 'IPv6')
  if (families.length > 0) return families
  return isIP(spec.clusterIP ?? '') === 6 ? ['IPv6'] : ['IPv4']
}

function addressOf({ status }: Pod, family: AddressType): string | undefined {
  const addresses = [...(status?.podIPs ?? []).map(({ ip }) => ip), ...(status?.podIP ? [status.podIP] : [])]
  return addresses.find((address) => isIP(address) === (family === 'IPv4' ? 4 : 6))
}

/**
 * A Pod as an endpoint. `serving` is the Pod's readiness, `ready` leaves out Pods being deleted, unless the Service
 * publishes addresses that are not ready.
 */
function toEndpoint({ api }: ControllerContext, pod: Pod, service: Service, address: string): Endpoint {
  const { namespace, name, uid } = pod.metadata
  const { nodeName } = pod.spec
  const serving = isReady(pod)
  const terminating = isTerminating(pod)
  const ready = service.spec.publishNotReadyAddresses === true || (serving && !terminating)
  const hostname = hostnameIn(pod, service)
  const zone = nodeName && api.get<Node>('nodes', undefined, nodeName)?.metadata.labels?.[zoneLabel]
  return {
    addresses: [address],
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
