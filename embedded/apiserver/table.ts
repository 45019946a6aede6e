import type {
  CoreV1Event,
  V1ConfigMap,
  V1ControllerRevision,
  V1EndpointSlice,
  V1Endpoints,
  V1Lease,
  V1Namespace,
  V1Node,
  V1Secret,
  V1ServiceAccount,
} from '@kubernetes/client-node'
import {
  ageColumn,
  ageOf,
  type Column,
  columns,
  cronJobColumns,
  daemonSetColumns,
  deploymentColumns,
  humanDuration,
  jobColumns,
  nameColumn,
  podColumns,
  replicaSetColumns,
  serviceColumns,
} from './columns.ts'
import type { Stored } from './store.ts'

/** The columns that kubectl prints for a resource. */
function columnsOf(resource: string): readonly Column[] {
  return byResource[resource] ?? plain
}

const plain = columns([nameColumn, ageColumn])

const nodeColumns = columns<V1Node>([
  nameColumn,
  { name: 'Status', cell: nodeStatus },
  { name: 'Roles', cell: nodeRoles },
  ageColumn,
  { name: 'Version', cell: (node) => node.status?.nodeInfo?.kubeletVersion ?? '' },
  { name: 'Internal-IP', wide: true, cell: (node) => nodeAddress(node, 'InternalIP') },
  { name: 'External-IP', wide: true, cell: (node) => nodeAddress(node, 'ExternalIP') },
  { name: 'OS-Image', wide: true, cell: (node) => node.status?.nodeInfo?.osImage || '<unknown>' },
  { name: 'Kernel-Version', wide: true, cell: (node) => node.status?.nodeInfo?.kernelVersion || '<unknown>' },
  {
    name: 'Container-Runtime',
    wide: true,
    cell: (node) => node.status?.nodeInfo?.containerRuntimeVersion || '<unknown>',
  },
])

const eventColumns = columns<CoreV1Event>([
  { name: 'Last Seen', cell: lastSeen },
  { name: 'Type', cell: (event) => event.type ?? '' },
  { name: 'Reason', cell: (event) => event.reason ?? '' },
  {
    name: 'Object',
    cell: ({ involvedObject: { kind, name } }) => `${(kind ?? '').toLowerCase()}/${name ?? ''}`,
  },
  { name: 'Subobject', wide: true, cell: (event) => event.involvedObject.fieldPath ?? '' },
  {
    name: 'Source',
    wide: true,
    cell: ({ source, reportingComponent }) =>
      [source?.component || reportingComponent, source?.host].filter(Boolean).join(', '),
  },
  { name: 'Message', cell: (event) => (event.message ?? '').trim() },
  { name: 'First Seen', wide: true, cell: (event, now) => ageOf(text(event.firstTimestamp ?? event.eventTime), now) },
  { name: 'Count', wide: true, cell: (event) => String(event.series?.count ?? event.count ?? 1) },
  { ...nameColumn, wide: true },
])

const byResource: Record<string, readonly Column[]> = {
  pods: podColumns,
  services: serviceColumns,
  deployments: deploymentColumns,
  replicasets: replicaSetColumns,
  daemonsets: daemonSetColumns,
  jobs: jobColumns,
  cronjobs: cronJobColumns,
  nodes: nodeColumns,
  namespaces: columns<V1Namespace>([
    nameColumn,
    { name: 'Status', cell: (namespace) => namespace.status?.phase ?? '' },
    ageColumn,
  ]),
  endpoints: columns<V1Endpoints>([nameColumn, { name: 'Endpoints', cell: endpointsText }, ageColumn]),
  endpointslices: columns<V1EndpointSlice>([
    nameColumn,
    { name: 'AddressType', cell: (slice) => slice.addressType },
    { name: 'Ports', cell: slicePorts },
    { name: 'Endpoints', cell: sliceAddresses },
    ageColumn,
  ]),
  configmaps: columns<V1ConfigMap>([
    nameColumn,
    { name: 'Data', cell: (map) => count(map.data) + count(map.binaryData) },
    ageColumn,
  ]),
  secrets: columns<V1Secret>([
    nameColumn,
    { name: 'Type', cell: (secret) => secret.type ?? '' },
    { name: 'Data', type: 'integer', cell: (secret) => count(secret.data) },
    ageColumn,
  ]),
  serviceaccounts: columns<V1ServiceAccount>([
    nameColumn,
    { name: 'Secrets', cell: (account) => account.secrets?.length ?? 0 },
    ageColumn,
  ]),
  leases: columns<V1Lease>([
    nameColumn,
    { name: 'Holder', cell: (lease) => lease.spec?.holderIdentity ?? '' },
    ageColumn,
  ]),
  controllerrevisions: columns<V1ControllerRevision>([
    nameColumn,
    { name: 'Controller', cell: controllerOf },
    { name: 'Revision', type: 'integer', cell: (revision) => revision.revision },
    ageColumn,
  ]),
  events: eventColumns,
}

function lastSeen(event: CoreV1Event, now: Date): string {
  const first = ageOf(text(event.firstTimestamp ?? event.eventTime), now)
  const last = text(event.series?.lastObservedTime ?? event.lastTimestamp)
  const times = event.series?.count ?? event.count ?? 1
  if (!last) return first
  const age = humanDuration((now.getTime() - Date.parse(last)) / 1000)
  return times > 1 ? `${age} (x${times} over ${first})` : age
}

/** Times are strings in JSON, although client-node's types declare Date. */
function text(time: unknown): string | undefined {
  return typeof time === 'string' ? time : undefined
}

function count(map: object | undefined): number {
  return Object.keys(map ?? {}).length
}

function nodeStatus(node: V1Node): string {
  const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready')
  const status = ready ? (ready.status === 'True' ? 'Ready' : 'NotReady') : 'Unknown'
  return node.spec?.unschedulable ? `${status},SchedulingDisabled` : status
}

function nodeRoles(node: V1Node): string {
  const prefix = 'node-role.kubernetes.io/'
  const roles = Object.entries(node.metadata?.labels ?? {}).flatMap(([key, value]) => {
    if (key.startsWith(prefix)) return key.length > prefix.length ? [key.slice(prefix.length)] : []
    return key === 'kubernetes.io/role' && value ? [value] : []
  })
  return roles.sort().join(',') || '<none>'
}

function nodeAddress(node: V1Node, type: string): string {
  return node.status?.addresses?.find((address) => address.type === type)?.address ?? '<none>'
}

function endpointsText(endpoints: V1Endpoints): string {
  const all = (endpoints.subsets ?? []).flatMap(({ addresses, ports }) => {
    if (!ports?.length) return (addresses ?? []).map((address) => address.ip)
    return ports.flatMap((port) => (addresses ?? []).map((address) => `${address.ip}:${port.port}`))
  })
  return firstThree(all) || '<none>'
}

function slicePorts(slice: V1EndpointSlice): string {
  const ports = (slice.ports ?? []).map((port) => (port.port === undefined ? '*' : String(port.port)))
  return firstThree(ports) || '<unset>'
}

function sliceAddresses(slice: V1EndpointSlice): string {
  return firstThree((slice.endpoints ?? []).flatMap((endpoint) => endpoint.addresses)) || '<unset>'
}

function firstThree(items: readonly string[]): string {
  const shown = items.slice(0, 3).join(',')
  return items.length > 3 ? `${shown} + ${items.length - 3} more...` : shown
}

function controllerOf(revision: V1ControllerRevision): string {
  const owner = revision.metadata?.ownerReferences?.find((reference) => reference.controller)
  if (!owner) return '<none>'
  const group = owner.apiVersion.includes('/') ? `.${owner.apiVersion.split('/')[0]}` : ''
  return `${owner.kind.toLowerCase()}${group}/${owner.name}`
}

export type IncludeObject = 'None' | 'Metadata' | 'Object'

export interface Table {
  kind: 'Table'
  apiVersion: 'meta.k8s.io/v1'
  metadata: object
  columnDefinitions: { name: string; type: string; format: string; description: string; priority: number }[]
  rows: { cells: unknown[]; object?: unknown }[]
}

/** Objects as the table that kubectl prints; `headers: false` for all but the first event of a watch. */
export function tableOf(
  resource: string,
  objects: readonly Stored[],
  metadata: object,
  options: { include: IncludeObject; now: Date; headers?: boolean; present?: (object: Stored) => unknown },
): Table {
  const columns: readonly Column[] = columnsOf(resource)
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions:
      options.headers === false
        ? []
        : columns.map(({ name, type = 'string', wide }) => ({
            name,
            type,
            format: name === 'Name' ? 'name' : '',
            description: '',
            priority: wide ? 1 : 0,
          })),
    rows: objects.map((object) => ({
      cells: columns.map((column) => column.cell(object, options.now)),
      ...rowObject(object, options),
    })),
  }
}

/** metadata only, as clients ask for by `as=PartialObjectMetadata`. */
export function partialMetadata(object: Stored): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata }
}

function rowObject(
  object: Stored,
  { include, present }: { include: IncludeObject; present?: (object: Stored) => unknown },
): { object?: unknown } {
  if (include === 'None') return {}
  return { object: include === 'Object' ? (present ? present(object) : object) : partialMetadata(object) }
}
