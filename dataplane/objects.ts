// Output of `kubectl get nodes,services,endpointslices,configmaps -A -o json`: a v1 List of API
// objects.

import {
  FieldReader,
  type InvalidField,
  InvalidFieldsError,
  isObject,
  type UncheckedObject,
} from './objects/field-reader.ts'
import {
  type EndpointSlice,
  readEndpointSlice,
  readService,
  type Service,
} from './objects/service.ts'

export type { InvalidField } from './objects/field-reader.ts'
export type { Endpoint, EndpointSlice, Service, ServicePortSpec } from './objects/service.ts'

export type Node = ReturnType<typeof parseNode>

function parseNode(read: FieldReader, name: string) {
  const spec = read.child('spec')
  const status = read.child('status')
  const addresses = status.children('addresses')
  const ofType = (type: string) =>
    addresses
      .filter(({ raw }) => raw.type === type)
      .flatMap((entry) => entry.address('address', true) ?? [])
  const single = spec.raw.podCIDR ? [spec.cidr(spec.raw.podCIDR, 'podCIDR') ?? []].flat() : []
  const info = status.child('nodeInfo')
  // The kubelet's version since the field of kube-proxy's is empty (1.33).
  const kubeProxyVersion = info.text('kubeProxyVersion') || info.text('kubeletVersion')
  const kernelVersion = info.text('kernelVersion')
  return {
    name,
    labels: read.child('metadata').labels('labels'),
    /** In the order the Node lists them. */
    internalIPs: ofType('InternalIP'),
    externalIPs: ofType('ExternalIP'),
    podCIDRs: spec.list('podCIDRs').length > 0 ? spec.cidrs('podCIDRs') : single,
    ...(kubeProxyVersion && { kubeProxyVersion }),
    ...(kernelVersion && { kernelVersion }),
  }
}

/** The API objects that determine kube-proxy's rules, in their listed order. */
export interface ClusterObjects {
  nodes: Node[]
  services: Service[]
  endpointSlices: EndpointSlice[]
  /** The ranges of all ServiceCIDR objects. */
  serviceCIDRs: string[]
  /** Data of the ConfigMap kube-system/kube-proxy, if it was among the objects. */
  kubeProxyConfigMap?: Record<string, string>
}

/** The input is not a list of API objects. */
export class ObjectsError extends InvalidFieldsError {}

/** One sentence for each object that was left out, with the reason. */
export function leftOutObjects(faults: readonly InvalidField[]): string[] {
  const reasons = new Map<string, string[]>()
  for (const { object, field, message } of faults)
    reasons.set(object, [...(reasons.get(object) ?? []), `${field} ${message}`])
  return [...reasons].map(([object, why]) => `${object} was left out: ${why.join('; ')}`)
}

/** What one object of a kind adds to the others; kinds without a reader are ignored. */
const READERS: Record<
  string,
  (read: FieldReader, namespace: string, name: string) => Partial<ClusterObjects>
> = {
  Node: (read, _namespace, name) => ({ nodes: [parseNode(read, name)] }),
  Service: (...args) => ({ services: [readService(...args)] }),
  EndpointSlice: (...metadata) => ({ endpointSlices: [readEndpointSlice(...metadata)] }),
  ServiceCIDR: (read) => ({ serviceCIDRs: read.child('spec').cidrs('cidrs') }),
  ConfigMap: (read, namespace, name) =>
    namespace === 'kube-system' && name === 'kube-proxy'
      ? { kubeProxyConfigMap: read.labels('data') }
      : {},
}

const CLUSTER_SCOPED = new Set(['Node', 'ServiceCIDR'])

/** Flattens Lists (also typed ones such as ServiceList, whose items have no kind). */
function flatten(
  json: unknown,
  path: string,
  faults: InvalidField[],
  kind: string,
  found: [UncheckedObject, string][],
): void {
  if (!isObject(json)) {
    faults.push({ object: 'input', field: path, message: 'is not an API object' })
    return
  }
  const own = typeof json.kind === 'string' ? json.kind : kind
  if (own.endsWith('List') || (own === '' && json.items !== undefined))
    flattenItems(json.items, `${path}.items`, faults, own, found)
  else if (own === '') faults.push({ object: 'input', field: path, message: 'has no kind' })
  else if (Object.hasOwn(READERS, own)) found.push([json, own])
}

/** Flattens the items of one List of the kind `listKind`. */
function flattenItems(
  items: unknown,
  path: string,
  faults: InvalidField[],
  listKind: string,
  found: [UncheckedObject, string][],
): void {
  if (!Array.isArray(items)) {
    faults.push({ object: 'input', field: path, message: 'is not a list' })
    return
  }
  const itemKind = listKind === 'List' ? '' : listKind.slice(0, -'List'.length)
  for (const [index, item] of items.entries()) {
    const field = `${path}[${index}]`
    if (isObject(item) && typeof item.kind === 'string' && item.kind.endsWith('List'))
      faults.push({ object: 'input', field, message: 'is a list inside a list' })
    else flatten(item, field, faults, itemKind, found)
  }
}

/**
 * Reads the JSON of a v1 List (untrusted) into typed objects; kinds that are unrelated to Services
 * are ignored. EndpointSlices may be discovery.k8s.io/v1 or v1beta1. An object with a fault is left
 * out.
 * @returns the valid objects, and every fault of the others
 * @throws ObjectsError if the input contains no API object
 */
export function readObjects(json: unknown): { objects: ClusterObjects; faults: InvalidField[] } {
  const faults: InvalidField[] = []
  const found: [UncheckedObject, string][] = []
  flatten(json, '$', faults, '', found)
  if (found.length === 0 && faults.length > 0) throw new ObjectsError(faults)
  const objects: ClusterObjects = { nodes: [], services: [], endpointSlices: [], serviceCIDRs: [] }
  const seen = new Set<string>()
  for (const [raw, kind] of found) {
    const own: InvalidField[] = []
    const added = readClusterObject(raw, kind, seen, own)
    faults.push(...own)
    if (own.length === 0) addObjects(objects, added)
  }
  return { objects, faults }
}

/** Reads one object, and adds its faults to `faults`; a name that is in `seen` already is one. */
function readClusterObject(
  raw: UncheckedObject,
  kind: string,
  seen: Set<string>,
  faults: InvalidField[],
): Partial<ClusterObjects> {
  const rawMetadata = isObject(raw.metadata) ? raw.metadata : {}
  const label = [rawMetadata.namespace, rawMetadata.name]
    .filter((part) => typeof part === 'string')
    .join('/')
  const object = `${kind} ${label || '(unnamed)'}`
  const metadata = new FieldReader({ metadata: rawMetadata }, object, faults).child('metadata')
  const name = metadata.name('name')
  const namespace = CLUSTER_SCOPED.has(kind) ? '' : metadata.name('namespace')
  const added = READERS[kind]?.(new FieldReader(raw, object, faults), namespace, name) ?? {}
  const key = `${kind} ${namespace}/${name}`
  if (name !== '' && seen.has(key)) metadata.fault('name', `"${name}" is listed twice`)
  seen.add(key)
  return added
}

function addObjects(objects: ClusterObjects, added: Partial<ClusterObjects>): void {
  objects.nodes.push(...(added.nodes ?? []))
  objects.services.push(...(added.services ?? []))
  objects.endpointSlices.push(...(added.endpointSlices ?? []))
  objects.serviceCIDRs.push(...(added.serviceCIDRs ?? []))
  if (added.kubeProxyConfigMap) objects.kubeProxyConfigMap = added.kubeProxyConfigMap
}
