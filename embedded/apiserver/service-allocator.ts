import { randomInt } from 'node:crypto'
import { isIPv4 } from 'node:net'
import type { V1ServicePort, V1ServiceSpec } from '@kubernetes/client-node'
import { numberToAddress, toNumber } from '../../host/address-pool.ts'
import type { FieldErrors } from './field-errors.ts'

export interface ServiceRanges {
  serviceCIDR: string
  nodePortRange: [number, number]
}

/**
 * Whether a Service of its type has a cluster IP, may have node ports, and needs a port for health
 * checks.
 */
export const needsClusterIP = ({ type }: V1ServiceSpec) => type !== 'ExternalName'
export const hasNodePorts = ({ type }: V1ServiceSpec) =>
  type === 'NodePort' || type === 'LoadBalancer'
export const needsHealthCheckPort = ({ type, externalTrafficPolicy }: V1ServiceSpec) =>
  type === 'LoadBalancer' && externalTrafficPolicy === 'Local'

/**
 * Allocates the cluster IP and node ports that a Service lacks, or reports faults of requested
 * ones. `others` are the other Services.
 */
export function allocateService(
  spec: V1ServiceSpec,
  others: readonly V1ServiceSpec[],
  { serviceCIDR, nodePortRange }: ServiceRanges,
  errors: FieldErrors,
): void {
  if (needsClusterIP(spec) && spec.clusterIP !== 'None')
    allocateClusterIP(spec, new Set(others.map(({ clusterIP }) => clusterIP)), serviceCIDR, errors)
  const taken = new Set(
    others.flatMap(({ ports = [], healthCheckNodePort }) => [
      healthCheckNodePort,
      ...ports.map(({ nodePort }) => nodePort),
    ]),
  )
  const [first, last] = nodePortRange
  const take: TakePort = (asked, field) => {
    const size = last - first + 1
    const band = Math.min(Math.max(16, Math.floor(size / 32)), 128)
    const port = asked || freeNumber(first, size, band, (number) => !taken.has(number))
    const range = `The range of valid ports is ${first}-${last}`
    if (port === undefined) errors.invalid(field, 0, 'failed to allocate a nodePort: range is full')
    else if (port < first || port > last)
      errors.invalid(field, port, `provided port is not in the valid range. ${range}`)
    else if (taken.has(port)) errors.invalid(field, port, 'provided port is already allocated')
    taken.add(port)
    return port ?? 0
  }
  if (hasNodePorts(spec) && spec.allocateLoadBalancerNodePorts !== false)
    allocateNodePorts(spec.ports ?? [], take)
  if (needsHealthCheckPort(spec))
    spec.healthCheckNodePort = take(spec.healthCheckNodePort, 'spec.healthCheckNodePort')
}

/** Takes the node port that is asked for, or a free one, for a field. */
type TakePort = (asked: number | undefined, field: string) => number

/**
 * Ports of one Service with the same number but different protocols share a node port, as in
 * Kubernetes.
 */
function allocateNodePorts(ports: readonly V1ServicePort[], take: TakePort): void {
  const asked = new Map(
    ports.flatMap((port, index) => (port.nodePort ? [[port.nodePort, index] as const] : [])),
  )
  for (const [nodePort, index] of asked) take(nodePort, `spec.ports[${index}].nodePort`)
  for (const [index, port] of ports.entries()) {
    if (port.nodePort) continue
    const isFree = (nodePort: number | undefined) =>
      !ports.some((other) => other.nodePort === nodePort && other.protocol === port.protocol)
    const twin = ports.find(
      (other) => other.port === port.port && other.nodePort && isFree(other.nodePort),
    )
    port.nodePort = twin?.nodePort ?? take(undefined, `spec.ports[${index}].nodePort`)
  }
}

function allocateClusterIP(
  spec: V1ServiceSpec,
  taken: ReadonlySet<string | undefined>,
  cidr: string,
  errors: FieldErrors,
): void {
  const [network = '', bits] = cidr.split('/')
  const [base, size] = [toNumber(network), 2 ** (32 - Number(bits))]
  // The network address and the broadcast address are not allocated.
  const isUsable = (number: number) => number > base && number < base + size - 1
  const { clusterIP: asked } = spec
  if (!asked) {
    const band = Math.min(Math.max(16, Math.floor(size / 16)), 256)
    const free = freeNumber(
      base,
      size,
      band,
      (number) => isUsable(number) && !taken.has(numberToAddress(number)),
    )
    if (free === undefined)
      errors.invalid('spec.clusterIPs', [], 'failed to allocate a serviceIP: range is full')
    else spec.clusterIP = numberToAddress(free)
  } else if (isIPv4(asked)) {
    const reason = taken.has(asked)
      ? 'provided IP is already allocated'
      : `the provided IP (${asked}) is not in the valid range. The range of valid IPs is ${cidr}`
    if (taken.has(asked) || !isUsable(toNumber(asked)))
      errors.invalid('spec.clusterIPs', [asked], `failed to allocate IP ${asked}: ${reason}`)
  }
  if (spec.clusterIP) spec.clusterIPs = [spec.clusterIP]
}

/**
 * A free number of a range, from a random start; the lower `band`, for static allocation, comes
 * last (KEP-3070, KEP-3668).
 */
function freeNumber(
  first: number,
  size: number,
  band: number,
  isFree: (number: number) => boolean,
): number | undefined {
  const lower = size < 32 ? 0 : band
  const upper = size - lower
  const start = randomInt(upper)
  for (let tried = 0; tried < size; tried++) {
    const number = first + (tried < upper ? lower + ((start + tried) % upper) : tried - upper)
    if (isFree(number)) return number
  }
  return undefined
}
