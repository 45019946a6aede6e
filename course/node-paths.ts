// The path of a packet through a node of a cluster or of a capture, in each of kube-proxy's modes.

import { familyOf } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import type { Packet } from '../dataplane/trace.ts'
import type { Surroundings } from '../dataplane/view/journey.ts'
import {
  type PacketPath,
  type PathOptions,
  packetPath,
  pathsInAllModes,
} from '../dataplane/view/packet-path.ts'
import { predictOptions } from '../grading/evaluate.ts'
import { Trouble } from '../grading/failure.ts'
import { modeOf, objectsOf, type Snapshot, stateOf } from '../grading/snapshot.ts'

/**
 * The path of a packet through a node of a snapshot with this state, in the node's own mode.
 * `destination`: the endpoint of the journey.
 */
export function pathOn(
  snapshot: Snapshot,
  node: string,
  state: NodeState,
  packet: Packet,
  destination?: string,
): PacketPath {
  return packetPath(state, packet, {
    ...optionsOn(snapshot, node, packet),
    real: true,
    ...(destination !== undefined && { destination }),
  })
}

/** The same in every mode, the node's own first. */
export function pathsOn(
  snapshot: Snapshot,
  node: string,
  state: NodeState,
  packet: Packet,
  destination?: string,
): PacketPath[] {
  return pathsInAllModes(state, objectsOf(snapshot), packet, {
    ...predictOptions(snapshot.node(node), 'iptables'),
    ...optionsOn(snapshot, node, packet),
    family: familyOf(packet.destination) ?? 'ipv4',
    ...(destination !== undefined && { destination }),
  })
}

const optionsOn = (
  snapshot: Snapshot,
  node: string,
  packet: Packet,
): Omit<PathOptions, 'real' | 'destination'> => ({
  node,
  mode: modeOf(snapshot.node(node)) ?? 'unknown',
  isService: isOfService(snapshot, packet, node),
  surroundings: surroundingsIn(snapshot),
})

/** Where Pods and nodes' own addresses are, and what nodes hold that can be read. */
function surroundingsIn(snapshot: Snapshot): Surroundings {
  const { nodes } = objectsOf(snapshot)
  const pods = snapshot.items.filter(({ kind, spec }) => kind === 'Pod' && !spec?.hostNetwork)
  return {
    nodeOf: (address) =>
      pods.find(({ status }) => status?.podIP === address)?.spec?.nodeName ??
      nodes.find(({ internalIPs }) => internalIPs.includes(address))?.name,
    stateOf(node) {
      try {
        return stateOf(snapshot.node(node))
      } catch (error) {
        if (error instanceof Trouble) return undefined
        throw error
      }
    },
  }
}

/**
 * Whether the node is to take the packet to an endpoint: one to an address of a Service, or to a
 * node port at its own address.
 */
function isOfService(snapshot: Snapshot, { destination, port }: Packet, node: string): boolean {
  const { services, nodes } = objectsOf(snapshot)
  const isOwn = nodes.some(
    ({ name, internalIPs }) => name === node && internalIPs.includes(destination),
  )
  return services.some(({ clusterIPs, externalIPs, loadBalancerIngress, ports }) => {
    const addresses = [...clusterIPs, ...externalIPs, ...loadBalancerIngress.map(({ ip }) => ip)]
    return (
      addresses.includes(destination) || (isOwn && ports.some(({ nodePort }) => nodePort === port))
    )
  })
}
