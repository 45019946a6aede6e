import { randomInt } from 'node:crypto'
import type { V1ServicePort, V1ServiceSpec } from '@kubernetes/client-node'
import ipaddr from 'ipaddr.js'
import type { FieldErrors } from './field-errors.ts'

export interface ServiceRanges {
  serviceCIDR: string
  nodePortRange: [number, number]
}

export function needsClusterIP(spec: V1ServiceSpec): boolean {
  return spec.type !== 'ExternalName'
}

/** True for the types whose ports may have node ports. */
export function hasNodePorts(spec: V1ServiceSpec): boolean {
  return spec.type === 'NodePort' || spec.type === 'LoadBalancer'
}

export function needsHealthCheckPort(spec: V1ServiceSpec): boolean {
  return spec.type === 'LoadBalancer' && spec.externalTrafficPolicy === 'Local'
}

/**
 * Allocates the cluster IP and node ports that a Service needs, or reports faults of the requested ones. Allocated
 * values are read from `others` (all other Services), so a release needs no bookkeeping.
 */
export function allocateService(
  spec: V1ServiceSpec,
  others: readonly V1ServiceSpec[],
  { serviceCIDR, nodePortRange }: ServiceRanges,
  errors: FieldErrors,
): void {
  if (needsClusterIP(spec) && spec.clusterIP !== 'None') {
    allocateClusterIP(spec, new Set(others.map(({ clusterIP }) => clusterIP)), serviceCIDR, errors)
  }
  const held = others.flatMap(({ ports = [], healthCheckNodePort }) => [
    ...ports.map(({ nodePort }) => nodePort),
    healthCheckNodePort,
  ])
  const nodePorts = new NodePorts(new Set(held), nodePortRange, errors)
  if (hasNodePorts(spec) && spec.allocateLoadBalancerNodePorts !== false) nodePorts.allocate(spec.ports ?? [])
  if (!needsHealthCheckPort(spec)) return
  const field = 'spec.healthCheckNodePort'
  if (spec.healthCheckNodePort) nodePorts.take(spec.healthCheckNodePort, field)
  else spec.healthCheckNodePort = nodePorts.takeFree(field) ?? 0
}

function allocateClusterIP(
  spec: V1ServiceSpec,
  taken: ReadonlySet<string | undefined>,
  cidr: string,
  errors: FieldErrors,
): void {
  const [network, bits] = ipaddr.IPv4.parseCIDR(cidr)
  const [base, size] = [numberOf(network), 2 ** (32 - bits)]
  // The network address and the broadcast address are not allocated.
  const isUsable = (offset: number) => offset > 0 && offset < size - 1
  const { clusterIP: asked } = spec
  if (asked === undefined || asked === '') {
    const band = Math.min(Math.max(16, Math.floor(size / 16)), 256)
    const free = freeOffset(size, band, (offset) => isUsable(offset) && !taken.has(textOf(base + offset)))
    if (free === undefined) errors.invalid('spec.clusterIPs', [], 'failed to allocate a serviceIP: range is full')
    else spec.clusterIP = textOf(base + free)
  } else if (ipaddr.IPv4.isValid(asked)) {
    const reason = taken.has(asked)
      ? 'provided IP is already allocated'
      : `the provided IP (${asked}) is not in the valid range. The range of valid IPs is ${cidr}`
    if (taken.has(asked) || !isUsable(numberOf(ipaddr.IPv4.parse(asked)) - base))
      errors.invalid('spec.clusterIPs', [asked], `failed to allocate IP ${asked}: ${reason}`)
  }
  if (spec.clusterIP) spec.clusterIPs = [spec.clusterIP]
}

function numberOf(address: ipaddr.IPv4): number {
  return address.octets.reduce((sum, octet) => sum * 256 + octet, 0)
}

function textOf(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.')
}

/** The node ports of a cluster: those of other Services, and those of one Service that is about to be stored. */
class NodePorts {
  private readonly taken: Set<number | undefined>
  private readonly range: readonly [number, number]
  private readonly errors: FieldErrors

  constructor(taken: Set<number | undefined>, range: readonly [number, number], errors: FieldErrors) {
    this.taken = taken
    this.range = range
    this.errors = errors
  }

  /** Ports of one Service with the same number but different protocols share a node port, as in Kubernetes. */
  allocate(ports: readonly V1ServicePort[]): void {
    const asked = new Map(ports.flatMap((port, index) => (port.nodePort ? [[port.nodePort, index] as const] : [])))
    for (const [nodePort, index] of asked) this.take(nodePort, `spec.ports[${index}].nodePort`)
    for (const [index, port] of ports.entries()) {
      if (port.nodePort) continue
      const isFree = (nodePort: number | undefined) =>
        !ports.some((other) => other.nodePort === nodePort && other.protocol === port.protocol)
      const twin = ports.find((other) => other.port === port.port && other.nodePort && isFree(other.nodePort))
      port.nodePort = twin?.nodePort ?? this.takeFree(`spec.ports[${index}].nodePort`)
    }
  }

  take(port: number, field: string): void {
    const [first, last] = this.range
    if (port < first || port > last) {
      const range = `The range of valid ports is ${first}-${last}`
      this.errors.invalid(field, port, `provided port is not in the valid range. ${range}`)
    } else if (this.taken.has(port)) this.errors.invalid(field, port, 'provided port is already allocated')
    this.taken.add(port)
  }

  takeFree(field: string): number | undefined {
    const [first, last] = this.range
    const size = last - first + 1
    const band = Math.min(Math.max(16, Math.floor(size / 32)), 128)
    const free = freeOffset(size, band, (offset) => !this.taken.has(first + offset))
    if (free === undefined) this.errors.invalid(field, 0, 'failed to allocate a nodePort: range is full')
    else this.taken.add(first + free)
    return free === undefined ? undefined : first + free
  }
}

/**
 * A free offset of a range, from a random start through its upper part; the lower `band`, which is for static allocation,
 * comes last (KEP-3070, KEP-3668).
 */
function freeOffset(size: number, band: number, isFree: (offset: number) => boolean): number | undefined {
  const lower = size < 32 ? 0 : band
  const start = lower + randomInt(size - lower)
  const parts = [
    [start, size],
    [lower, start],
    [0, lower],
  ] as const
  for (const [from, to] of parts) for (let offset = from; offset < to; offset++) if (isFree(offset)) return offset
  return undefined
}
