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

const packetSchema = z.strictObject({
  /** `pod`, `host`, `outside`, or the name of a Pod. */
  from: z.string().regex(/^[a-z][a-z0-9-]*$/),
  /** The name of a Service. */
  to: z.string().regex(/^[a-z][a-z0-9-]*$/),
  /** To the Service's node port at the node's own address. */
  'node-port': z.boolean().default(false),
  /** The place of the journey that the step is about. */
  at: z.enum(['Pod', 'IPVS', 'PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']),
  beside: z.enum(['pod', 'host', 'outside']).optional(),
})
const fileSchema = z.record(z.string().regex(/^\d+\/[a-z][a-z0-9-]*$/), packetSchema)

export type StepPacket = z.output<typeof packetSchema>

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
 * The route of a step's packet, or of one from `from` to the same destination; undefined while its Pod or Service does not exist,
 * or no node could be read.
 */
export function routeOf(
  packet: StepPacket,
  snapshot: Snapshot,
  from = packet.from,
): StepRoute | undefined {
  const { services, nodes } = objectsOf(snapshot)
  const name = packet.to.replace(/^web(?=$|-)/, variantIn(snapshot).name)
  const service = services.find((one) => one.namespace === 'default' && one.name === name)
  const address = service?.clusterIPs[0]
  const [port] = service?.ports ?? []
  const controlPlane = controlPlaneOf(snapshot)?.name
  const worker = nodes.find(({ name }) => name !== controlPlane) ?? nodes[0]
  if (!worker || !port || address === undefined || address === 'None') return undefined
  const own = worker.internalIPs[0] ?? ''
  if (packet['node-port'] && !port.nodePort) return undefined
  const to = packet['node-port']
    ? printEndpoint(own, port.nodePort ?? 0)
    : printEndpoint(address, port.port)
  if (from === 'host' || from === OUTSIDE) return { from, to, node: worker.name, origin: from }
  const pod = podFor(from, snapshot)
  if (!pod?.spec) return undefined
  const { metadata, spec, status } = pod
  return {
    from: `pod/${metadata.name}`,
    to,
    node: spec.nodeName ?? '',
    origin: `pod:${status?.podIP}`,
  }
}

/** The Pod of that name; for `pod` the labs' client, else any other one that is ready. */
function podFor(name: string, snapshot: Snapshot): ApiObject | undefined {
  const pods = snapshot.items.filter(
    (item) =>
      item.kind === 'Pod' &&
      item.metadata.namespace === 'default' &&
      !item.metadata.deletionTimestamp &&
      !item.spec?.hostNetwork &&
      item.status?.podIP !== undefined &&
      hasCondition(item, 'Ready'),
  )
  const wanted = name === 'pod' ? 'client' : name
  const found = pods.find(({ metadata }) => metadata.name === wanted)
  return found ?? (name === 'pod' ? pods[0] : undefined)
}
