// What the two endpoint controllers share: which Pods a Service has, by which ports, and when that may have changed.

import { hasLabels, type Labels } from '../../dataplane/label-selector.ts'
import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, keyOf } from './context.ts'
import { createIndex } from './object-index.ts'
import { isReady, isTerminal } from './pod-condition.ts'
import type { Pod, Service, SlicePort } from './resources.ts'
import type { Workqueue } from './workqueue.ts'

/** The selector by which the Service finds its Pods; undefined for a Service without a selector, whose endpoints are managed elsewhere. */
export function podSelector({ spec }: Service): Labels | undefined {
  if (spec.type === 'ExternalName' || !spec.selector || Object.keys(spec.selector).length === 0) return undefined
  return spec.selector
}

export function isHeadless({ spec }: Service): boolean {
  return spec.clusterIP === 'None'
}

/** The Pods that may become endpoints: selected, not ended, with an address. */
export function podsOf({ api }: ControllerContext, service: Service): Pod[] {
  const selector = podSelector(service)
  const { namespace } = service.metadata
  if (!selector || namespace === undefined) return []
  return api
    .list<Pod>('pods', { namespace })
    .filter((pod) => hasLabels(pod.metadata.labels, selector) && !isTerminal(pod) && pod.status?.podIP)
}

/**
 * The Service's ports on one Pod. A target port given by name is the number that the Pod's containers have under this
 * name and protocol; a port whose name the Pod does not know is left out.
 */
export function portsOn(pod: Pod, service: Service): SlicePort[] {
  return (service.spec.ports ?? []).flatMap(({ name = '', port, protocol = 'TCP', targetPort = port, appProtocol }) => {
    const number = typeof targetPort === 'number' ? targetPort : namedPort(pod, targetPort, protocol)
    return number === undefined ? [] : [{ name, port: number, protocol, ...(appProtocol && { appProtocol }) }]
  })
}

function namedPort(pod: Pod, name: string, protocol: string): number | undefined {
  const sidecars = (pod.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  return [...pod.spec.containers, ...sidecars]
    .flatMap(({ ports = [] }) => ports)
    .find((port) => port.name === name && (port.protocol ?? 'TCP') === protocol)?.containerPort
}

/** The DNS name of its own that a Pod has behind a headless Service of the same name as its subdomain. */
export function hostnameIn({ spec, metadata }: Pod, service: Service): string | undefined {
  const same = spec.subdomain === service.metadata.name && metadata.namespace === service.metadata.namespace
  return same ? spec.hostname : undefined
}

/** Asks `queue` about every Service whose endpoints a change of a Service or a Pod may touch. */
export function watchServicesAndPods(context: ControllerContext, queue: Workqueue): void {
  const services = createIndex<Service>(context, 'services', ({ metadata }) => metadata.namespace)
  context.watch<Service>('services', ({ object }) => queue.add(keyOf(object)))
  context.watch<Pod>('pods', ({ type, object, previous }) => {
    if (type === 'MODIFIED' && previous && sameJson(view(previous), view(object))) return
    for (const service of services.get(object.metadata.namespace ?? '')) {
      const selector = podSelector(service)
      if (!selector) continue
      const selected = [object, previous].some((pod) => pod && hasLabels(pod.metadata.labels, selector))
      if (selected) queue.add(keyOf(service))
    }
  })
}

/** What of a Pod shows in an endpoint. */
function view(pod: Pod) {
  const { metadata, spec, status } = pod
  const { nodeName, hostname, subdomain, containers } = spec
  const ports = containers.map((container) => container.ports)
  const ips = [status?.podIP, status?.podIPs]
  return [
    metadata.labels,
    metadata.deletionTimestamp,
    isTerminal(pod),
    isReady(pod),
    ips,
    nodeName,
    hostname,
    subdomain,
    ports,
  ]
}
