import type { V1EndpointAddress } from '@kubernetes/client-node'
import { sameJson } from '../apiserver/json.ts'
import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, splitKey } from './context.ts'
import {
  type EndpointSlice,
  type EndpointSubset,
  type Endpoints,
  isReady,
  isTerminating,
  type Pod,
  type Service,
  type Stored,
} from './resources.ts'
import { hostnameIn, isHeadless, podSelector, podsOf, portsKey, portsOn, watchServicesAndPods } from './slice-plan.ts'

const headlessLabel = 'service.kubernetes.io/headless'
const overCapacity = 'endpoints.kubernetes.io/over-capacity'
// The limit of one Endpoints object; EndpointSlices have no such limit.
const maxAddresses = 1000

type Address = Stored<V1EndpointAddress>

/** Maintains the Endpoints object of every Service with a selector, for clients that still read it. */
export function startEndpointsController(context: ControllerContext): void {
  const { api } = context

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const service = api.get<Service>('services', namespace, name)
    if (!service) {
      remove(namespace, name)
      return
    }
    if (service.metadata.deletionTimestamp || !podSelector(service)) return
    const { subsets, truncated } = subsetsOf(service, podsOf(context, service))
    const current = api.get<Endpoints>('endpoints', namespace, name)
    const labels: Record<string, string> = {
      ...service.metadata.labels,
      ...(isHeadless(service) && { [headlessLabel]: '' }),
    }
    const annotations: Record<string, string> = truncated ? { [overCapacity]: 'truncated' } : {}
    const wanted = { labels, annotations, subsets }
    if (!current) {
      const metadata = { name, ...(namespace && { namespace }), labels, ...(truncated && { annotations }) }
      api.create('endpoints', namespace, { apiVersion: 'v1', kind: 'Endpoints', metadata, subsets })
      return
    }
    const before = { labels: current.metadata.labels ?? {}, annotations: current.metadata.annotations ?? {} }
    if (sameJson({ ...before, subsets: current.subsets ?? [] }, wanted)) return
    api.update<Endpoints>('endpoints', { ...current, subsets, metadata: { ...current.metadata, labels, annotations } })
  })

  function remove(namespace: string | undefined, name: string) {
    try {
      api.delete('endpoints', namespace, name)
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  }

  watchServicesAndPods(context, queue)
}

/**
 * Addresses grouped by their ports, ready and not ready separately. Pods being deleted are left out, unless the Service
 * publishes addresses that are not ready.
 */
function subsetsOf(service: Service, pods: readonly Pod[]): { subsets: EndpointSubset[]; truncated: boolean } {
  const publish = service.spec.publishNotReadyAddresses === true
  const listed = pods.filter((pod) => publish || !isTerminating(pod))
  const groups = new Map<
    string,
    { addresses: Address[]; notReadyAddresses: Address[]; ports: ReturnType<typeof portsOn> }
  >()
  for (const pod of listed.slice(0, maxAddresses)) {
    const ports = portsOn(pod, service)
    if (ports.length === 0 && !isHeadless(service)) continue
    const key = portsKey(ports)
    const group = groups.get(key) ?? { addresses: [], notReadyAddresses: [], ports }
    groups.set(key, group)
    const list = publish || isReady(pod) ? group.addresses : group.notReadyAddresses
    list.push(addressOf(pod, service))
  }
  const subsets = [...groups.values()].map(({ addresses, notReadyAddresses, ports }) => ({
    ...(addresses.length > 0 && { addresses }),
    ...(notReadyAddresses.length > 0 && { notReadyAddresses }),
    // Here, unlike in slices, an unnamed port has no name at all.
    ...(ports.length > 0 && { ports: ports.map(({ name, ...port }) => (name ? { name, ...port } : port)) }),
  }))
  return { subsets, truncated: listed.length > maxAddresses }
}

function addressOf(pod: Pod, service: Service): Address {
  const { namespace, name, uid } = pod.metadata
  const { nodeName } = pod.spec
  const hostname = hostnameIn(pod, service)
  return {
    ip: pod.status?.podIP ?? '',
    ...(hostname && { hostname }),
    ...(nodeName && { nodeName }),
    targetRef: { kind: 'Pod', name, uid, ...(namespace && { namespace }) },
  }
}

/** The address of the API server for Pods and nodes. */
export interface ApiServerEndpoint {
  ip: string
  port: number
}

const namespace = 'default'
const name = 'kubernetes'

/**
 * Maintains the endpoints of the Service `kubernetes`, which selects no Pods, as kube-apiserver does: one Endpoints and
 * one EndpointSlice of the Service's name that no controller manages.
 */
export function startKubernetesEndpoints(context: ControllerContext, { ip, port }: ApiServerEndpoint): void {
  const { api } = context
  const ports = [{ name: 'https', port, protocol: 'TCP' }]
  const slice = { addressType: 'IPv4', endpoints: [{ addresses: [ip], conditions: { ready: true } }], ports }
  const subsets = [{ addresses: [{ ip }], ports }]

  const queue = context.queue(() => {
    const endpoints = api.get<Endpoints>('endpoints', namespace, name)
    if (!endpoints) {
      const labels = { 'endpointslice.kubernetes.io/skip-mirror': 'true' }
      api.create('endpoints', namespace, { metadata: { name, namespace, labels }, subsets })
    } else if (!sameJson(endpoints.subsets, subsets)) api.update<Endpoints>('endpoints', { ...endpoints, subsets })
    const stored = api.get<EndpointSlice>('endpointslices', namespace, name)
    if (!stored) {
      const labels = { 'kubernetes.io/service-name': name }
      api.create('endpointslices', namespace, { metadata: { name, namespace, labels }, ...slice })
    } else if (!sameJson([stored.endpoints, stored.ports], [slice.endpoints, ports])) {
      api.update('endpointslices', { ...stored, ...slice })
    }
  })

  for (const resource of ['endpoints', 'endpointslices']) {
    context.watch(resource, ({ object: { metadata } }) => {
      if (metadata.name === name && metadata.namespace === namespace) queue.add(name)
    })
  }
  queue.add(name)
}
