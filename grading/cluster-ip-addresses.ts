import { expectNodes } from './expect-node.ts'
import type { Snapshot } from './snapshot.ts'

/** No interface of any node has a ClusterIP: in iptables mode it is only a pattern in rules. */
export function noInterfaceOwnsClusterIPs({ objects, nodes }: Snapshot): void {
  const clusterIPs = new Set(objects.services.flatMap((service) => service.clusterIPs))
  expectNodes(nodes).noInterfaceHas(clusterIPs, 'ClusterIP', {
    hint: 'An earlier IPVS mode left it there: make flush-nat removes it.',
  })
}
