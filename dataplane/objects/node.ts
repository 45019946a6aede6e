import type { FieldReader, JsonObject } from './field-reader.ts'

export interface Node {
  name: string
  labels: Record<string, string>
  /** Addresses of type InternalIP, in the order the Node lists them. */
  internalIPs: string[]
  /** Addresses of type ExternalIP. */
  externalIPs: string[]
  podCIDRs: string[]
  /** What the Node says of kube-proxy's version, or since that field went empty (1.33) of the kubelet's. */
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
