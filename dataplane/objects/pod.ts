import type { FieldReader, JsonObject } from './field-reader.ts'

export interface Pod {
  namespace: string
  name: string
  labels: Record<string, string>
  podIPs: string[]
  nodeName?: string
  hostNetwork: boolean
  phase: string
  ready: boolean
}

/** Reads one Pod; faults go to the reader. */
export function readPod(read: FieldReader, raw: JsonObject, namespace: string, name: string): Pod {
  const metadata = read.child(raw.metadata, 'metadata')
  const spec = read.child(raw.spec, 'spec')
  const status = read.child(raw.status, 'status')
  const list = read
    .list(status.podIPs, 'status.podIPs')
    .map((item) => read.child(item, 'status.podIPs').ip)
    .filter((ip) => ip !== undefined && ip !== '')
  const single = status.podIP === undefined || status.podIP === '' ? [] : [status.podIP]
  const conditions = read
    .list(status.conditions, 'status.conditions')
    .map((item) => read.child(item, 'status.conditions'))
  const pod: Pod = {
    namespace,
    name,
    labels: read.labels(metadata.labels, 'metadata.labels'),
    podIPs: (list.length > 0 ? list : single).flatMap((ip) => read.address(ip, 'status.podIPs') ?? []),
    hostNetwork: read.flag(spec.hostNetwork, 'spec.hostNetwork') ?? false,
    phase: read.text(status.phase, 'status.phase') ?? '',
    ready: conditions.some((condition) => condition.type === 'Ready' && condition.status === 'True'),
  }
  const nodeName = read.text(spec.nodeName, 'spec.nodeName')
  if (nodeName) pod.nodeName = nodeName
  return pod
}
