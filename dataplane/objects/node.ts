import type { FieldReader } from './field-reader.ts'

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
export function readNode(read: FieldReader, name: string): Node {
  const spec = read.child('spec')
  const status = read.child('status')
  const addresses = status.children('addresses')
  const ofType = (type: string) =>
    addresses.filter(({ raw }) => raw.type === type).flatMap((entry) => entry.address('address', true) ?? [])
  const single = spec.raw.podCIDR ? [spec.cidr(spec.raw.podCIDR, 'podCIDR') ?? []].flat() : []
  const info = status.child('nodeInfo')
  const version = info.text('kubeProxyVersion') || info.text('kubeletVersion')
  return {
    name,
    labels: read.child('metadata').labels('labels'),
    internalIPs: ofType('InternalIP'),
    externalIPs: ofType('ExternalIP'),
    podCIDRs: spec.list('podCIDRs').length > 0 ? spec.cidrs('podCIDRs') : single,
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
export function readPod(read: FieldReader, namespace: string, name: string): Pod {
  const spec = read.child('spec')
  const status = read.child('status')
  const podIPs = status.children('podIPs').filter(({ raw }) => raw.ip)
  const nodeName = spec.text('nodeName')
  return {
    namespace,
    name,
    labels: read.child('metadata').labels('labels'),
    podIPs:
      podIPs.length > 0 ? podIPs.flatMap((one) => one.address('ip') ?? []) : [status.address('podIP') ?? []].flat(),
    hostNetwork: spec.flag('hostNetwork') ?? false,
    phase: status.text('phase') ?? '',
    ready: status.children('conditions').some(({ raw }) => raw.type === 'Ready' && raw.status === 'True'),
    ...(nodeName ? { nodeName } : {}),
  }
}
