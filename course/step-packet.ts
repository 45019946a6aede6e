// The packet that a step is about (labs/packets.yaml), on the cluster as it is.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'
import { printEndpoint } from '../dataplane/ip-address.ts'
import { type ApiObject, hasCondition } from '../grading/api-object.ts'
import { controlPlaneOf, objectsOf, type Snapshot } from '../grading/snapshot.ts'
import { variantIn } from '../grading/variant.ts'
import { projectRoot } from '../host/layout.ts'
import { OUTSIDE } from '../host/outside.ts'

/** A packet as labs/packets.yaml has it. */
export const stepPacketSchema = z.strictObject({
  /** `pod`, `host`, `outside`, or the name of a Pod. */
  from: z.string().regex(/^[a-z][a-z0-9-]*$/),
  /** The name of a Service, or an address with its port. */
  to: z.string().regex(/^(?:[a-z][a-z0-9-]*|\d+(?:\.\d+){3}:\d+)$/),
  /**
   * Where a packet of a process, or from outside, is looked at: the first worker, or the control
   * plane.
   */
  on: z.enum(['worker', 'control-plane']).default('worker'),
  /** To the Service's node port at the node's own address. */
  'node-port': z.boolean().default(false),
  /** The place of the journey that the step is about. */
  at: z.enum(['Pod', 'process', 'IPVS', 'PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']),
  beside: z.enum(['pod', 'host', 'outside']).optional(),
})
const fileSchema = z.record(z.string().regex(/^\d+\/[a-z][a-z0-9-]*$/), stepPacketSchema)

export type StepPacket = z.output<typeof stepPacketSchema>

/** The packets by `LAB/STEP`. Throws Error for a file of another form. */
export function readStepPackets(): Record<string, StepPacket> {
  return fileSchema.parse(parse(readFileSync(join(projectRoot, 'labs/packets.yaml'), 'utf8')))
}

/** Origin and destination in the form that `make trace` takes, and the node where it begins. */
export interface StepRoute {
  from: string
  to: string
  node: string
  /** The origin with the address of its Pod: `pod:10.244.1.5`. */
  origin: string
}

/**
 * The route of a step's packet, or of one from `from` to the same destination; undefined while its
 * Pod or Service does not exist, or no node could be read.
 */
export function routeOf(
  packet: StepPacket,
  snapshot: Snapshot,
  from = packet.from,
): StepRoute | undefined {
  const { nodes } = objectsOf(snapshot)
  const controlPlane = controlPlaneOf(snapshot)
  const worker = nodes.find(({ name }) => name !== controlPlane?.name) ?? nodes[0]
  const place = packet.on === 'worker' ? worker : controlPlane
  const to = destinationOf(packet, snapshot, worker?.internalIPs[0])
  if (!place || to === undefined) return undefined
  if (from === 'host' || from === OUTSIDE) return { from, to, node: place.name, origin: from }
  const pod = podFor(from, packet.to, snapshot)
  if (!pod?.spec) return undefined
  const { metadata, spec, status } = pod
  return {
    from:
      metadata.namespace === 'default'
        ? `pod/${metadata.name}`
        : `pod/${metadata.namespace}/${metadata.name}`,
    to,
    node: spec.nodeName ?? '',
    origin: `pod:${status?.podIP}`,
  }
}

/** The name of a Service of the labs in the learner's variant. */
const serviceName = (to: string, snapshot: Snapshot): string =>
  to.replace(/^web(?=$|-)/, variantIn(snapshot).name)

/**
 * Where a packet goes; undefined while its Service has no such port. `own` is the address of the
 * node for a node port.
 */
function destinationOf(packet: StepPacket, snapshot: Snapshot, own = ''): string | undefined {
  if (packet.to.includes(':')) return packet.to
  const name = serviceName(packet.to, snapshot)
  const service = objectsOf(snapshot).services.find(
    (one) => one.namespace === 'default' && one.name === name,
  )
  const address = service?.clusterIPs[0]
  const [port] = service?.ports ?? []
  if (!port || address === undefined || address === 'None') return undefined
  if (!packet['node-port']) return printEndpoint(address, port.port)
  return port.nodePort ? printEndpoint(own, port.nodePort) : undefined
}

/**
 * The Pod of that name. For `pod` it is the labs' client, else another one that is ready, before
 * those of the system; none of the destination's own Pods, whose packets may come back to
 * themselves.
 */
function podFor(name: string, to: string, snapshot: Snapshot): ApiObject | undefined {
  const pods = snapshot.items.filter(
    (item) =>
      item.kind === 'Pod' &&
      !item.metadata.deletionTimestamp &&
      !item.spec?.hostNetwork &&
      item.status?.podIP !== undefined &&
      hasCondition(item, 'Ready'),
  )
  const own = pods.filter(({ metadata }) => metadata.namespace === 'default')
  if (name !== 'pod') return own.find(({ metadata }) => metadata.name === name)
  const backends = endpointAddresses(to, snapshot)
  return (
    own.find(({ metadata }) => metadata.name === 'client') ??
    [...own, ...pods].find(({ status }) => !backends.has(status?.podIP ?? ''))
  )
}

/** The addresses of a Service's endpoints; none for a destination that is an address. */
function endpointAddresses(to: string, snapshot: Snapshot): ReadonlySet<string> {
  const name = serviceName(to, snapshot)
  const slices = objectsOf(snapshot).endpointSlices.filter(
    (slice) => slice.namespace === 'default' && slice.serviceName === name,
  )
  return new Set(slices.flatMap(({ endpoints }) => endpoints.flatMap((one) => one.addresses)))
}
