// What `kubectl get nodes,services,endpointslices,pods,configmaps -A -o json` prints: a v1 List of API objects.

import { type EndpointSlice, readEndpointSlice } from './objects/endpoint-slice.ts'
import { type Fault, FieldReader, isObject, type JsonObject } from './objects/field-reader.ts'
import { type Node, readNode } from './objects/node.ts'
import { type Pod, readPod } from './objects/pod.ts'
import { readService, type Service } from './objects/service.ts'

export type { Endpoint, EndpointPort, EndpointSlice } from './objects/endpoint-slice.ts'
export type { Fault } from './objects/field-reader.ts'
export type { Node } from './objects/node.ts'
export type { Pod } from './objects/pod.ts'
export type { LoadBalancerIngress, Protocol, Service, ServicePortSpec } from './objects/service.ts'

/** The API objects that decide what kube-proxy programs, in the order they were listed. */
export interface ClusterObjects {
  nodes: Node[]
  services: Service[]
  endpointSlices: EndpointSlice[]
  pods: Pod[]
  /** Data of the ConfigMap kube-system/kube-proxy, if it was among the objects. */
  kubeProxyConfigMap?: Record<string, string>
}

/** The input cannot be used. `faults` holds every fault found, each with its object and field. */
export class ObjectsError extends Error {
  readonly faults: Fault[]

  constructor(faults: Fault[]) {
    super(faults.map((fault) => `${fault.object}: ${fault.field} ${fault.message}`).join('\n'))
    this.name = 'ObjectsError'
    this.faults = faults
  }
}

const KINDS = new Set(['Node', 'Service', 'EndpointSlice', 'Pod', 'ConfigMap'])

/** Flattens Lists (also typed ones such as ServiceList, whose items carry no kind of their own). */
function flatten(json: unknown, path: string, faults: Fault[], kind: string, found: [JsonObject, string][]): void {
  if (!isObject(json)) {
    faults.push({ object: 'input', field: path, message: 'is not an API object' })
    return
  }
  const own = typeof json.kind === 'string' ? json.kind : kind
  const items = json.items
  if (own.endsWith('List') || (own === '' && items !== undefined)) {
    if (!Array.isArray(items)) {
      faults.push({ object: 'input', field: `${path}.items`, message: 'is not a list' })
      return
    }
    const itemKind = own === 'List' ? '' : own.slice(0, -'List'.length)
    for (const [index, item] of items.entries()) {
      if (isObject(item) && typeof item.kind === 'string' && item.kind.endsWith('List'))
        faults.push({ object: 'input', field: `${path}.items[${index}]`, message: 'is a list inside a list' })
      else flatten(item, `${path}.items[${index}]`, faults, itemKind, found)
    }
    return
  }
  if (own === '') faults.push({ object: 'input', field: path, message: 'has no kind' })
  else if (KINDS.has(own)) found.push([json, own])
}

/**
 * Reads the JSON of a v1 List (untrusted) into typed objects; kinds that say nothing about Services are passed over.
 * EndpointSlices may be discovery.k8s.io/v1 or v1beta1.
 * @throws ObjectsError naming every fault at once.
 */
export function readObjects(json: unknown): { objects: ClusterObjects } {
  const faults: Fault[] = []
  const found: [JsonObject, string][] = []
  flatten(json, '$', faults, '', found)
  const objects: ClusterObjects = { nodes: [], services: [], endpointSlices: [], pods: [] }
  const seen = new Set<string>()
  for (const [raw, kind] of found) {
    const metadata = isObject(raw.metadata) ? raw.metadata : {}
    const label = [metadata.namespace, metadata.name].filter((part) => typeof part === 'string').join('/')
    const read = new FieldReader(`${kind} ${label || '(unnamed)'}`, faults)
    const name = read.name(metadata.name, 'metadata.name')
    const namespace = kind === 'Node' ? '' : read.name(metadata.namespace, 'metadata.namespace')
    const key = `${kind} ${namespace}/${name}`
    if (name !== '' && seen.has(key)) read.fault('metadata.name', `"${name}" is listed twice`)
    seen.add(key)
    if (kind === 'Node') objects.nodes.push(readNode(read, raw, name))
    else if (kind === 'Service') objects.services.push(readService(read, raw, namespace, name))
    else if (kind === 'EndpointSlice') objects.endpointSlices.push(readEndpointSlice(read, raw, namespace, name))
    else if (kind === 'Pod') objects.pods.push(readPod(read, raw, namespace, name))
    else if (namespace === 'kube-system' && name === 'kube-proxy')
      objects.kubeProxyConfigMap = read.labels(raw.data, 'data')
  }
  if (faults.length > 0) throw new ObjectsError(faults)
  return { objects }
}
