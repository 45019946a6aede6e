import type { FieldReader, JsonObject } from './field-reader.ts'

export interface Node {
  name: string
  labels: Record<string, string>
  /** Addresses of type InternalIP, in the order the Node lists them. */
  internalIPs: string[]
  /** Addresses of type ExternalIP. */
  externalIPs: string[]
  podCIDRs: string[]
  /** kube-proxy's version as the Node reports it; the kubelet's version since that field is empty (1.33). */
  kubeProxyVersion?: string
}

/** Reads one Node; faults go to the reader. */
export function readNode(read: FieldReader, raw: JsonObject, name: string): Node {
  const metadata = read.child(raw.metadata, 'metadata')
  const spec = read.child(raw.spec, 'spec')
  const status = read.child(raw.status, 'status')
  const internalIPs: string[] = []
  const externalIPs: string[] = []
  for (const [index, item] of read.list(status.addresses, 'status.addresses').entries()) {
    const entry = read.child(item, `status.addresses[${index}]`)
    if (entry.type !== 'InternalIP' && entry.type !== 'ExternalIP') continue
    const address = read.address(entry.address, `status.addresses[${index}].address`)
    if (address) (entry.type === 'InternalIP' ? internalIPs : externalIPs).push(address)
  }
  const list = read.list(spec.podCIDRs, 'spec.podCIDRs')
  const single = spec.podCIDR === undefined || spec.podCIDR === '' ? [] : [spec.podCIDR]
  const podCIDRs = (list.length > 0 ? list : single).flatMap((item) => read.cidr(item, 'spec.podCIDR') ?? [])
  const info = read.child(status.nodeInfo, 'status.nodeInfo')
  const [proxy, kubelet] = (['kubeProxyVersion', 'kubeletVersion'] as const).map((field) =>
    read.text(info[field], `status.nodeInfo.${field}`),
  )
  const version = proxy || kubelet
  return {
    name,
    labels: read.labels(metadata.labels, 'metadata.labels'),
    internalIPs,
    externalIPs,
    podCIDRs,
    ...(version ? { kubeProxyVersion: version } : {}),
  }
}

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
