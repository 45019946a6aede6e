import { sameJson } from '../apiserver/json.ts'
import type { ControllerContext } from './context.ts'
import type { EndpointSlice, Endpoints } from './resources.ts'

/** Where Pods and nodes reach the API server. */
export interface ApiServerEndpoint {
  ip: string
  port: number
}

const namespace = 'default'
const name = 'kubernetes'

/**
 * Keeps the endpoints of the Service `kubernetes`, which selects no Pods: as kube-apiserver does for itself, one Endpoints
 * and one EndpointSlice of the Service's name that no controller manages.
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
