// Output of `kubectl get nodes,services,endpointslices,pods,configmaps -A -o json`: a v1 List of API objects.

import { type EndpointSlice, readEndpointSlice } from './objects/endpoint-slice.ts'
import { type Fault, FieldReader, isObject, type JsonObject } from './objects/field-reader.ts'
import { type Node, type Pod, readNode, readPod } from './objects/node.ts'
import { readService, type Service } from './objects/service.ts'

export type { Endpoint, EndpointSlice } from './objects/endpoint-slice.ts'
export type { Fault } from './objects/field-reader.ts'
export type { Node, Pod } from './objects/node.ts'
export type { Service, ServicePortSpec } from './objects/service.ts'

/** The API objects that determine kube-proxy's rules, in their listed order. */
export interface ClusterObjects {
  nodes: Node[]
  services: Service[]
  endpointSlices: EndpointSlice[]
  pods: Pod[]
  /** The ranges of all ServiceCIDR objects. */
  serviceCIDRs: string[]
  /** Data of the ConfigMap kube-system/kube-proxy, if it was among the objects. */
  kubeProxyConfigMap?: Record<string, string>
}

/** The input is not a list of API objects. `faults` contains every fault with its object and field. */
export class ObjectsError extends Error {
  readonly faults: Fault[]

  constructor(faults: Fault[]) {
    super(faults.map((fault) => `${fault.object}: ${fault.field} ${fault.message}`).join('\n'))
    this.name = 'ObjectsError'
    this.faults = faults
  }
}

/** One sentence for each object that was left out, with the reason. */
export function leftOutObjects(faults: readonly Fault[]): string[] {
  const reasons = new Map<string, string[]>()
  for (const { object, field, message } of faults)
    reasons.set(object, [...(reasons.get(object) ?? []), `${field} ${message}`])
  return [...reasons].map(([object, why]) => `${object} was left out: ${why.join('; ')}`)
}

const KINDS = new Set(['Node', 'Service', 'EndpointSlice', 'Pod', 'ServiceCIDR', 'ConfigMap'])

/** Kinds whose objects have no namespace. */
const CLUSTER_SCOPED = new Set(['Node', 'ServiceCIDR'])

/** Flattens Lists (also typed ones such as ServiceList, whose items have no kind). */
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

/** An object as it was read, without a fault. */
type ReadObject =
  | { kind: 'Node'; value: Node }
  | { kind: 'Service'; value: Service }
  | { kind: 'EndpointSlice'; value: EndpointSlice }
  | { kind: 'Pod'; value: Pod }
  | { kind: 'ServiceCIDR'; value: string[] }
  | { kind: 'ConfigMap'; value: Record<string, string> | undefined }

/**
 * Reads the JSON of a v1 List (untrusted) into typed objects; kinds that are unrelated to Services are ignored.
 * EndpointSlices may be discovery.k8s.io/v1 or v1beta1. An object with a fault is left out and does not affect the
 * others.
 * @returns the valid objects, and every fault of the others
 * @throws ObjectsError if the input contains no API object
 */
export function readObjects(json: unknown): { objects: ClusterObjects; faults: Fault[] } {
  const faults: Fault[] = []
  const found: [JsonObject, string][] = []
  flatten(json, '$', faults, '', found)
  if (found.length === 0 && faults.length > 0) throw new ObjectsError(faults)
  const objects: ClusterObjects = { nodes: [], services: [], endpointSlices: [], pods: [], serviceCIDRs: [] }
  const seen = new Set<string>()
  for (const [raw, kind] of found) {
    const own: Fault[] = []
    const { namespace, name, read } = readOne(raw, kind, own)
    const key = `${kind} ${namespace}/${name}`
    if (name !== '' && seen.has(key))
      own.push({ object: labelOf(raw, kind), field: 'metadata.name', message: `"${name}" is listed twice` })
    seen.add(key)
    faults.push(...own)
    if (own.length > 0) continue
    if (read.kind === 'Node') objects.nodes.push(read.value)
    else if (read.kind === 'Service') objects.services.push(read.value)
    else if (read.kind === 'EndpointSlice') objects.endpointSlices.push(read.value)
    else if (read.kind === 'Pod') objects.pods.push(read.value)
    else if (read.kind === 'ServiceCIDR') objects.serviceCIDRs.push(...read.value)
    else if (read.value) objects.kubeProxyConfigMap = read.value
  }
  return { objects, faults }
}

function labelOf(raw: JsonObject, kind: string): string {
  const metadata = isObject(raw.metadata) ? raw.metadata : {}
  const label = [metadata.namespace, metadata.name].filter((part) => typeof part === 'string').join('/')
  return `${kind} ${label || '(unnamed)'}`
}

function readOne(raw: JsonObject, kind: string, faults: Fault[]) {
  const metadata = isObject(raw.metadata) ? raw.metadata : {}
  const read = new FieldReader(labelOf(raw, kind), faults)
  const name = read.name(metadata.name, 'metadata.name')
  const namespace = CLUSTER_SCOPED.has(kind) ? '' : read.name(metadata.namespace, 'metadata.namespace')
  return { namespace, name, read: readKind(read, raw, kind, namespace, name) }
}

function readKind(read: FieldReader, raw: JsonObject, kind: string, namespace: string, name: string): ReadObject {
  if (kind === 'Node') return { kind, value: readNode(read, raw, name) }
  if (kind === 'Service') return { kind, value: readService(read, raw, namespace, name) }
  if (kind === 'EndpointSlice') return { kind, value: readEndpointSlice(read, raw, namespace, name) }
  if (kind === 'Pod') return { kind, value: readPod(read, raw, namespace, name) }
  if (kind === 'ServiceCIDR') {
    const cidrs = read.list(read.child(raw.spec, 'spec').cidrs, 'spec.cidrs')
    return { kind, value: cidrs.flatMap((item, index) => read.cidr(item, `spec.cidrs[${index}]`) ?? []) }
  }
  const isKubeProxy = namespace === 'kube-system' && name === 'kube-proxy'
  return { kind: 'ConfigMap', value: isKubeProxy ? read.labels(raw.data, 'data') : undefined }
}
