import type { V1Service } from '@kubernetes/client-node'
import { ageColumn, type Column, columns, nameColumn } from './table-column.ts'

function externalAddress(service: V1Service): string {
  const spec = service.spec ?? {}
  const own = spec.externalIPs ?? []
  if (spec.type === 'ExternalName') return spec.externalName ?? ''
  if (spec.type !== 'LoadBalancer') return own.join(',') || '<none>'
  const ingress = (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => ip || hostname || [])
  return [...ingress, ...own].join(',') || '<pending>'
}

function ports(service: V1Service): string {
  const shown = (service.spec?.ports ?? []).map(({ port, nodePort, protocol }) =>
    nodePort ? `${port}:${nodePort}/${protocol}` : `${port}/${protocol}`,
  )
  return shown.join(',') || '<none>'
}

/** Labels as kubectl writes them: `a=1,b=2`, or `<none>`. */
export function labelsText(labels: Record<string, string> | undefined): string {
  const pairs = Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`)
  return pairs.sort().join(',') || '<none>'
}

export const serviceColumns: readonly Column[] = columns<V1Service>([
  nameColumn,
  { name: 'Type', cell: (service) => service.spec?.type ?? '' },
  { name: 'Cluster-IP', cell: (service) => service.spec?.clusterIP || '<none>' },
  { name: 'External-IP', cell: externalAddress },
  { name: 'Port(s)', cell: ports },
  ageColumn,
  { name: 'Selector', wide: true, cell: (service) => labelsText(service.spec?.selector) },
])
