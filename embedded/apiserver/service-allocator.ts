import { randomInt } from 'node:crypto'
import { isIP } from 'node:net'
import type { V1Service, V1ServicePort } from '@kubernetes/client-node'
import ipaddr from 'ipaddr.js'
import type { FieldErrors } from './field-errors.ts'
import { sameJson } from './json.ts'

export interface ServiceRanges {
  serviceCIDR: string
  nodePortRange: [number, number]
}

/**
 * Allocates the cluster IP and node ports that a Service needs, or reports faults of the requested ones. Allocated
 * values are read from `others` (all other Services), so a release needs no bookkeeping.
 */
export function allocateService(
  service: V1Service,
  others: readonly V1Service[],
  ranges: ServiceRanges,
  errors: FieldErrors,
): void {
  const spec = service.spec
  if (!spec) return
  if (needsClusterIP(service) && spec.clusterIP !== 'None') {
    allocateClusterIP(service, new Set(others.map((other) => other.spec?.clusterIP)), ranges, errors)
  }
  const taken = new Set<number>()
  for (const other of others) for (const port of portsHeld(other)) taken.add(port)
  if (needsNodePorts(service)) allocateNodePorts(spec.ports ?? [], taken, ranges, errors)
  if (needsHealthCheckPort(service)) {
    const field = 'spec.healthCheckNodePort'
    if (spec.healthCheckNodePort) checkNodePort(spec.healthCheckNodePort, field, taken, ranges, errors)
    else {
      const port = freeNodePort(taken, ranges)
      if (port) spec.healthCheckNodePort = port
      else errors.invalid(field, 0, 'failed to allocate a nodePort: range is full')
    }
  }
}

export function needsClusterIP(service: V1Service): boolean {
  return service.spec?.type !== 'ExternalName'
}

function needsNodePorts(service: V1Service): boolean {
  const spec = service.spec
  return spec?.type === 'NodePort' || (spec?.type === 'LoadBalancer' && spec.allocateLoadBalancerNodePorts !== false)
}

export function needsHealthCheckPort(service: V1Service): boolean {
  return service.spec?.type === 'LoadBalancer' && service.spec.externalTrafficPolicy === 'Local'
}

function portsHeld(service: V1Service): number[] {
  const ports = (service.spec?.ports ?? []).map((port) => port.nodePort ?? 0)
  return [...ports, service.spec?.healthCheckNodePort ?? 0].filter((port) => port > 0)
}

function allocateClusterIP(
  service: V1Service,
  taken: ReadonlySet<string | undefined>,
  { serviceCIDR }: ServiceRanges,
  errors: FieldErrors,
): void {
  const spec = service.spec
  if (!spec) return
  const asked = spec.clusterIP || spec.clusterIPs?.[0]
  if (!asked) {
    const free = freeAddress(taken, serviceCIDR)
    if (free) {
      spec.clusterIP = free
      spec.clusterIPs = [free]
    } else {
      errors.invalid('spec.clusterIPs', [], 'failed to allocate a serviceIP: range is full')
    }
    return
  }
  spec.clusterIP = asked
  spec.clusterIPs ??= [asked]
  if (!ipaddr.IPv4.isValid(asked)) return
  const reason = taken.has(asked)
    ? 'provided IP is already allocated'
    : inRange(asked, serviceCIDR)
      ? undefined
      : `the provided IP (${asked}) is not in the valid range. The range of valid IPs is ${serviceCIDR}`
  if (reason) errors.invalid('spec.clusterIPs', spec.clusterIPs, `failed to allocate IP ${asked}: ${reason}`)
}

/** Ports of one Service with the same number but different protocols share a node port, as in Kubernetes. */
function allocateNodePorts(
  ports: V1ServicePort[],
  taken: Set<number>,
  ranges: ServiceRanges,
  errors: FieldErrors,
): void {
  const own = new Set<number>()
  for (const [index, port] of ports.entries()) {
    if (!port.nodePort) continue
    if (!own.has(port.nodePort)) checkNodePort(port.nodePort, `spec.ports[${index}].nodePort`, taken, ranges, errors)
    own.add(port.nodePort)
  }
  for (const port of own) taken.add(port)
  for (const [index, port] of ports.entries()) {
    if (port.nodePort) continue
    const twin = ports.find(
      (other) =>
        other.port === port.port &&
        other.nodePort !== undefined &&
        !ports.some((same) => same.nodePort === other.nodePort && same.protocol === port.protocol),
    )
    const nodePort = twin?.nodePort ?? freeNodePort(taken, ranges)
    if (nodePort) {
      port.nodePort = nodePort
      taken.add(nodePort)
    } else errors.invalid(`spec.ports[${index}].nodePort`, 0, 'failed to allocate a nodePort: range is full')
  }
}

function checkNodePort(
  port: number,
  field: string,
  taken: ReadonlySet<number>,
  { nodePortRange: [first, last] }: ServiceRanges,
  errors: FieldErrors,
): void {
  if (port < first || port > last) {
    const range = `The range of valid ports is ${first}-${last}`
    errors.invalid(field, port, `provided port is not in the valid range. ${range}`)
  } else if (taken.has(port)) errors.invalid(field, port, 'provided port is already allocated')
}

// Automatic allocation uses the upper part of a range first; the lower part is for static allocation (KEP-3070,
// KEP-3668).

function freeNodePort(taken: ReadonlySet<number>, { nodePortRange: [first, last] }: ServiceRanges): number | undefined {
  const size = last - first + 1
  const band = size < 32 ? 0 : Math.min(Math.max(16, Math.floor(size / 32)), 128)
  return pick(size, band, (offset) => (taken.has(first + offset) ? undefined : first + offset))
}

function freeAddress(taken: ReadonlySet<string | undefined>, cidr: string): string | undefined {
  const { base, size } = range(cidr)
  const band = size < 32 ? 0 : Math.min(Math.max(16, Math.floor(size / 16)), 256)
  // The network address and the broadcast address are not allocated.
  return pick(size - 1, Math.max(band, 1), (offset) => {
    const address = textOf(base + offset)
    return offset === 0 || taken.has(address) ? undefined : address
  })
}

/** From a random start through the upper part of a range, then the lower `band`. */
function pick<T>(size: number, band: number, at: (offset: number) => T | undefined): T | undefined {
  for (const [from, length] of [
    [band, size - band],
    [0, band],
  ] as const) {
    if (length <= 0) continue
    const start = randomInt(length)
    for (let step = 0; step < length; step++) {
      const found = at(from + ((start + step) % length))
      if (found !== undefined) return found
    }
  }
  return undefined
}

function range(cidr: string): { base: number; size: number } {
  const [network, bits] = ipaddr.IPv4.parseCIDR(cidr)
  return { base: numberOf(network), size: 2 ** (32 - bits) }
}

function inRange(address: string, cidr: string): boolean {
  const { base, size } = range(cidr)
  const offset = numberOf(ipaddr.IPv4.parse(address)) - base
  return offset > 0 && offset < size - 1
}

function numberOf(address: ipaddr.IPv4): number {
  return address.octets.reduce((sum, octet) => sum * 256 + octet, 0)
}

function textOf(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.')
}

/** Completes clusterIP, clusterIPs and the IP families of a new Service; this cluster supports IPv4 only. */
export function prepareService(service: V1Service): void {
  const spec = service.spec
  if (!spec) return
  if (spec.clusterIP && !spec.clusterIPs?.length) spec.clusterIPs = [spec.clusterIP]
  if (!spec.clusterIP && spec.clusterIPs?.[0]) spec.clusterIP = spec.clusterIPs[0]
  if (!needsClusterIP(service)) {
    delete spec.ipFamilies
    delete spec.ipFamilyPolicy
    return
  }
  spec.ipFamilies ??= [isIP(spec.clusterIP ?? '') === 6 ? 'IPv6' : 'IPv4']
  spec.ipFamilyPolicy ??= 'SingleStack'
}

/**
 * Keeps allocated values that an update omits, and removes those that the new type does not use unless the update
 * sets them.
 */
export function carryAllocations(service: V1Service, old: V1Service): void {
  const spec = service.spec
  const before = old.spec
  if (!spec || !before) return
  if (needsClusterIP(old) && needsClusterIP(service)) {
    spec.clusterIP ||= before.clusterIP
    // Setting only the singular field also sets the plural one.
    if (spec.clusterIP !== before.clusterIP && sameJson(spec.clusterIPs, before.clusterIPs)) delete spec.clusterIPs
    if (spec.clusterIP === before.clusterIP) spec.clusterIPs ??= before.clusterIPs
  } else if (needsClusterIP(old) && spec.clusterIP === before.clusterIP) {
    delete spec.clusterIP
    delete spec.clusterIPs
  }
  if (needsNodePorts(old) && needsNodePorts(service)) {
    for (const port of spec.ports ?? []) {
      const same = before.ports?.find((other) => other.port === port.port && other.protocol === port.protocol)
      if (!port.nodePort && same?.nodePort) port.nodePort = same.nodePort
    }
  }
  if (needsHealthCheckPort(old) && needsHealthCheckPort(service)) {
    spec.healthCheckNodePort ||= before.healthCheckNodePort
  }
  dropUnused(service, old)
}

function dropUnused(service: V1Service, old: V1Service): void {
  const spec = service.spec
  const before = old.spec
  if (!spec || !before) return
  const exposed = spec.type === 'NodePort' || spec.type === 'LoadBalancer'
  if (!exposed) {
    const held = new Set((before.ports ?? []).map((port) => port.nodePort))
    for (const port of spec.ports ?? []) if (held.has(port.nodePort)) delete port.nodePort
    const external = spec.type === 'ClusterIP' && (spec.externalIPs?.length ?? 0) > 0
    if (!external && spec.externalTrafficPolicy === before.externalTrafficPolicy) delete spec.externalTrafficPolicy
  }
  if (!needsHealthCheckPort(service) && spec.healthCheckNodePort === before.healthCheckNodePort) {
    delete spec.healthCheckNodePort
  }
  if (spec.type !== 'LoadBalancer') {
    if (spec.allocateLoadBalancerNodePorts === before.allocateLoadBalancerNodePorts) {
      delete spec.allocateLoadBalancerNodePorts
    }
    if (spec.loadBalancerClass === before.loadBalancerClass) delete spec.loadBalancerClass
  }
  if (spec.type === 'ExternalName') {
    delete spec.internalTrafficPolicy
    delete spec.ipFamilies
    delete spec.ipFamilyPolicy
  }
}
