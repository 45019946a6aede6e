import type { Endpoint, Service } from '../dataplane/objects.ts'
import { fail } from './failure.ts'
import type { Snapshot } from './snapshot.ts'
import { variantIn } from './variant.ts'

export const WEB_NAMESPACE = 'default'

/** The Service web as the checks use it. */
export interface WebService {
  name: string
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
  const { name } = variantIn(snapshot)
  const service = findService(snapshot, name)
  const address = service?.clusterIPs.find((ip) => !ip.includes(':'))
  const port = service?.ports[0]?.port
  if (address === undefined || port === undefined)
    fail({
      look: `kubectl get service ${name}`,
      expected: `a Service ${name} in the default namespace with a ClusterIP and a port`,
      actual: service ? `a Service of type ${service.type} without a ClusterIP` : 'no Service of that name',
      hint: 'make web creates the Deployment and the Service.',
    })
  return { name, address, port, backends: readyBackends(snapshot, name) }
}

export function findService(snapshot: Snapshot, name: string): Service | undefined {
  return snapshot.objects.services.find((service) => service.namespace === WEB_NAMESPACE && service.name === name)
}

function readyBackends({ objects }: Snapshot, name: string): WebBackend[] {
  const pods = new Map(objects.pods.flatMap((pod) => pod.podIPs.map((ip) => [ip, pod] as const)))
  return objects.endpointSlices
    .filter((slice) => slice.namespace === WEB_NAMESPACE && slice.serviceName === name)
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
