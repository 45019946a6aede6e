import type { V1EndpointAddress } from '@kubernetes/client-node'
import type { Api } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, remove, splitKey } from './context.ts'
import {
  type EndpointSubset,
  type Endpoints,
  isReady,
  isTerminating,
  type Pod,
  type Service,
  type Stored,
} from './resources.ts'
import {
  headlessLabel,
  hostnameIn,
  isHeadless,
  podSelector,
  podsOf,
  portsKey,
  portsOn,
  watchServicesAndPods,
} from './slice-plan.ts'

type Address = Stored<V1EndpointAddress>

/** Maintains the Endpoints object of every Service with a selector, for clients that still read it. */
export function startEndpointsController(context: ControllerContext): void {
  const { api } = context

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const service = api.get<Service>('services', namespace, name)
    if (!service) {
      remove(api, 'endpoints', splitKey(key))
      return
    }
    if (service.metadata.deletionTimestamp || !podSelector(service)) return
    const subsets = subsetsOf(service, podsOf(context, service))
    const labels = { ...service.metadata.labels, ...(isHeadless(service) && { [headlessLabel]: '' }) }
    const current = api.get<Endpoints>('endpoints', namespace, name)
    if (!current) api.create('endpoints', namespace, { metadata: { name, labels }, subsets })
    else if (!sameJson([current.metadata.labels ?? {}, current.subsets ?? []], [labels, subsets]))
      api.update<Endpoints>('endpoints', { ...current, subsets, metadata: { ...current.metadata, labels } })
  })

  watchServicesAndPods(context, queue)
}

/**
 * Addresses grouped by their ports, ready and not ready separately. Pods being deleted are left out, unless the Service
 * publishes addresses that are not ready.
 */
function subsetsOf(service: Service, pods: readonly Pod[]): EndpointSubset[] {
  const publish = service.spec.publishNotReadyAddresses === true
  const groups = new Map<string, { ready: Address[]; notReady: Address[]; ports: ReturnType<typeof portsOn> }>()
  for (const pod of pods) {
    const ports = portsOn(pod, service)
    if ((isTerminating(pod) && !publish) || (ports.length === 0 && !isHeadless(service))) continue
    const group = groups.get(portsKey(ports)) ?? { ready: [], notReady: [], ports }
    groups.set(portsKey(ports), group)
    const list = publish || isReady(pod) ? group.ready : group.notReady
    list.push(addressOf(pod, service))
  }
  return [...groups.values()].map(({ ready, notReady, ports }) => ({
    ...(ready.length > 0 && { addresses: ready }),
    ...(notReady.length > 0 && { notReadyAddresses: notReady }),
    // Here, unlike in slices, an unnamed port has no name at all.
    ...(ports.length > 0 && { ports: ports.map(({ name, ...port }) => (name ? { name, ...port } : port)) }),
  }))
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
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [ip], conditions: { ready: true } }],
    ports,
  })
}
