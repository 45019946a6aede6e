import { quietAddress } from '../ip-address.ts'
import type { ClusterObjects, EndpointSlice, Service } from '../objects.ts'
import type { Packet } from './flow.ts'

/** TEST-NET-2 (RFC 5737): a client outside of the cluster. */
const OUTSIDE = '198.51.100.250'

/**
 * The first packets of connections to each IPv4 Service port: from a Pod of the node, from the node
 * itself, from outside; and from a Pod to one local and one remote endpoint of each EndpointSlice,
 * because in IPVS mode only these and replies traverse FORWARD.
 */
export function servicePackets(objects: ClusterObjects, name: string): Packet[] {
  const node = objects.nodes.find((one) => one.name === name)
  const pod = quietAddress(node?.podCIDRs.find(isIPv4) ?? '')
  const own = node?.internalIPs.find(isIPv4)
  const packets: Packet[] = []
  for (const service of objects.services) addServicePackets(service, pod, own, packets)
  if (pod !== undefined)
    for (const slice of objects.endpointSlices) addEndpointPackets(slice, name, pod, packets)
  return packets
}

const isIPv4 = (address: string): boolean => !address.includes(':')

/** From the node, from the Pod `pod`, and from outside to the node port at the address `own`. */
function addServicePackets(
  { clusterIPs, ports }: Service,
  pod: string | undefined,
  own: string | undefined,
  packets: Packet[],
): void {
  const destination = clusterIPs.find(isIPv4)
  if (destination === undefined) return
  for (const { port, nodePort, protocol: upper } of ports) {
    const protocol = protocolOf(upper)
    packets.push({ from: 'host', destination, port, protocol })
    if (pod !== undefined) packets.push({ from: 'pod', source: pod, destination, port, protocol })
    if (own !== undefined && nodePort !== 0)
      packets.push({
        from: 'external',
        source: OUTSIDE,
        destination: own,
        port: nodePort,
        protocol,
      })
  }
}

function addEndpointPackets(
  { addressType, ports, endpoints }: EndpointSlice,
  node: string,
  pod: string,
  packets: Packet[],
): void {
  const { protocol: upper, port = 0 } = ports[0] ?? {}
  if (addressType !== 'IPv4' || port === 0) return
  const protocol = protocolOf(upper)
  for (const isHere of [true, false]) {
    const endpoint = endpoints.find(({ nodeName }) => (nodeName === node) === isHere)
    const destination = endpoint?.addresses[0]
    if (destination !== undefined)
      packets.push({ from: 'pod', source: pod, destination, port, protocol })
  }
}

const protocolOf = (upper = 'TCP') => upper.toLowerCase() as Packet['protocol']
