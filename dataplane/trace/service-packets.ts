import type { ClusterObjects } from '../objects.ts'
import type { Packet } from './flow.ts'

/** TEST-NET-2 (RFC 5737): a client outside of the cluster. */
const OUTSIDE = '198.51.100.250'

/**
 * The first packets of connections to each IPv4 Service port: from a Pod of the node, from the node itself, from outside; and
 * from a Pod to one local and one remote endpoint of each EndpointSlice, because in IPVS mode only these and replies traverse
 * FORWARD.
 */
export function servicePackets(objects: ClusterObjects, name: string): Packet[] {
  const node = objects.nodes.find((one) => one.name === name)
  const isIPv4 = (address: string) => !address.includes(':')
  const pods = node?.podCIDRs.find(isIPv4)?.replace(/\.\d+\/\d+$/, '.250')
  const own = node?.internalIPs.find(isIPv4)
  const packets: Packet[] = []
  for (const { clusterIPs, ports } of objects.services) {
    const address = clusterIPs.find(isIPv4)
    for (const { port, nodePort, protocol: upper } of ports) {
      const protocol = protocolOf(upper)
      if (address !== undefined) {
        packets.push({ from: 'host', destination: address, port, protocol })
        if (pods !== undefined)
          packets.push({ from: 'pod', source: pods, destination: address, port, protocol })
      }
      if (own !== undefined && address !== undefined && nodePort !== 0)
        packets.push({
          from: 'external',
          source: OUTSIDE,
          destination: own,
          port: nodePort,
          protocol,
        })
    }
  }
  for (const slice of objects.endpointSlices) {
    const { protocol: upper, port = 0 } = slice.ports[0] ?? {}
    if (slice.addressType !== 'IPv4' || pods === undefined || port === 0) continue
    const protocol = protocolOf(upper)
    for (const isHere of [true, false]) {
      const [destination] =
        slice.endpoints.find(({ nodeName }) => (nodeName === name) === isHere)?.addresses ?? []
      if (destination !== undefined)
        packets.push({ from: 'pod', source: pods, destination, port, protocol })
    }
  }
  return packets
}

const protocolOf = (upper = 'TCP') => upper.toLowerCase() as Packet['protocol']
