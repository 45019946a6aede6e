import type { Endpoint, Service } from '../dataplane/objects.ts'
import { fail } from './failure.ts'
import type { Snapshot } from './snapshot.ts'

export const WEB = { namespace: 'default', name: 'web' }

/** The Service web as the checks use it. */
export interface WebService {
  address: string
  port: number
  /** Ready backends, by address. */
  backends: WebBackend[]
}

export interface WebBackend {
  address: string
  node: string
  pod: string
}

/** The Service web with its ready backends; fails when it is not there or has no ClusterIP. */
export function webService(snapshot: Snapshot): WebService {
  const service = findService(snapshot, WEB.name)
  const address = service?.clusterIPs.find((ip) => !ip.includes(':'))
  const port = service?.ports[0]?.port
  if (address === undefined || port === undefined)
    fail({
      look: 'kubectl get service web',
      expected: 'a Service web in the default namespace with a ClusterIP and a port',
      actual: service ? `a Service of type ${service.type} without a ClusterIP` : 'no Service of that name',
      hint: 'make web creates the Deployment and the Service.',
    })
  return { address, port, backends: readyBackends(snapshot) }
}

export function findService(snapshot: Snapshot, name: string): Service | undefined {
  return snapshot.objects.services.find((service) => service.namespace === WEB.namespace && service.name === name)
}

function readyBackends({ objects }: Snapshot): WebBackend[] {
  const pods = new Map(objects.pods.flatMap((pod) => pod.podIPs.map((ip) => [ip, pod] as const)))
  return objects.endpointSlices
    .filter((slice) => slice.namespace === WEB.namespace && slice.serviceName === WEB.name)
    .filter((slice) => slice.addressType === 'IPv4')
    .flatMap((slice) => slice.endpoints)
    .filter(isReady)
    .map((endpoint) => {
      const address = endpoint.addresses[0] ?? ''
      const pod = pods.get(address)
      return { address, node: endpoint.nodeName ?? pod?.nodeName ?? '', pod: pod?.name ?? '' }
    })
}

const isReady = ({ ready, terminating }: Endpoint) => ready && !terminating
