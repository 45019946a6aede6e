import { hasLabels, type Labels } from '../../dataplane/label-selector.ts'
import type { Api } from '../apiserver/api.ts'
import { hintsFor, zoneOf } from './endpoint-hints.ts'
import {
  type EndpointSliceObject,
  hasReadyCondition,
  isTerminal,
  isTerminating,
  type NodeObject,
  type Pod,
  type ServiceObject,
  type SliceEndpoint,
  type SlicePort,
} from './resources.ts'

/**
 * The selector by which the Service finds its Pods; undefined for a Service without a selector,
 * whose endpoints are managed elsewhere.
 */
export function podSelector({ spec }: ServiceObject): Labels | undefined {
  if (spec.type === 'ExternalName' || !spec.selector || Object.keys(spec.selector).length === 0)
    return undefined
  return spec.selector
}

/** Endpoints that listen on the same ports. */
export interface SliceContent {
  ports: SlicePort[]
  endpoints: SliceEndpoint[]
}

/**
 * The endpoints of a Service, by the ports they listen on: its selected Pods that have not ended
 * and have an address.
 */
export function endpointsOf(api: Api, service: ServiceObject, selector: Labels): SliceContent[] {
  const groups = new Map<string, SliceContent>()
  for (const pod of api.list<Pod>('pods', { namespace: service.metadata.namespace })) {
    if (!hasLabels(pod.metadata.labels, selector) || isTerminal(pod) || !pod.status?.podIP) continue
    const ports = portsOn(pod, service)
    const group = groups.get(portsKey(ports)) ?? { ports, endpoints: [] }
    groups.set(portsKey(ports), group)
    const node = api.get<NodeObject>('nodes', undefined, pod.spec.nodeName ?? '')
    const endpoint = toEndpoint(pod, service, zoneOf(node))
    group.endpoints.push({ ...endpoint, hints: hintsFor(service, endpoint) })
  }
  return [...groups.values()]
}

/**
 * A Pod as an endpoint: `serving` is its readiness, `ready` leaves out Pods being deleted, unless
 * the Service publishes all.
 */
function toEndpoint(pod: Pod, service: ServiceObject, zone: string | undefined): SliceEndpoint {
  const { metadata, spec, status } = pod
  const { namespace, name, uid } = metadata
  const [serving, terminating] = [hasReadyCondition(pod), isTerminating(pod)]
  const ready = service.spec.publishNotReadyAddresses === true || (serving && !terminating)
  return {
    addresses: [status?.podIP ?? ''],
    conditions: { ready, serving, terminating },
    hostname: spec.subdomain === service.metadata.name ? spec.hostname : undefined,
    nodeName: spec.nodeName,
    targetRef: { kind: 'Pod', namespace, name, uid },
    zone,
  }
}

/**
 * The Service's ports on one Pod. A named target port is that of a container with this name and
 * protocol; an unknown one is left out.
 */
function portsOn(pod: Pod, service: ServiceObject): SlicePort[] {
  return (service.spec.ports ?? []).flatMap(
    ({ name = '', port, protocol = 'TCP', targetPort = port, appProtocol }) => {
      const number =
        typeof targetPort === 'number' ? targetPort : namedPort(pod, targetPort, protocol)
      return number === undefined ? [] : [{ name, port: number, protocol, appProtocol }]
    },
  )
}

function namedPort({ spec }: Pod, name: string, protocol: string): number | undefined {
  const ports = spec.containers.flatMap(({ ports = [] }) => ports)
  return ports.find((port) => port.name === name && (port.protocol ?? 'TCP') === protocol)
    ?.containerPort
}

/** Equal for the same ports in any order. */
function portsKey(ports: readonly SlicePort[] = []): string {
  return ports
    .map(
      ({ name, port, protocol, appProtocol = '' }) => `${name} ${protocol} ${port} ${appProtocol}`,
    )
    .sort()
    .join()
}

/** The slice that gets each content, a new one if there is none, and the slices to remove. */
export interface SlicePlan {
  wanted: { content: SliceContent; slice?: EndpointSliceObject | undefined }[]
  surplus: EndpointSliceObject[]
}

/**
 * Assigns the wanted contents to slices: one for each set of ports, reusing others. A Service
 * without endpoints keeps an empty one.
 */
export function planSlices(
  existing: readonly EndpointSliceObject[],
  contents: readonly SliceContent[],
): SlicePlan {
  const wanted = (contents.length > 0 ? contents : [{ ports: [], endpoints: [] }]).map(
    (content) => {
      return {
        content,
        slice: existing.find(({ ports }) => portsKey(ports) === portsKey(content.ports)),
      }
    },
  )
  const surplus = existing.filter((slice) => !wanted.some((own) => own.slice === slice))
  for (const own of wanted) own.slice ??= surplus.shift()
  return { wanted, surplus }
}
