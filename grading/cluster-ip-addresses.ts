import { onNode } from './difference-report.ts'
import { fail } from './failure.ts'
import type { Snapshot } from './snapshot.ts'

/** No interface of any node has a ClusterIP: in iptables mode it is only a pattern in rules. */
export function noInterfaceOwnsClusterIPs({ objects, nodes }: Snapshot): void {
  const clusterIPs = new Set(objects.services.flatMap((service) => service.clusterIPs))
  for (const { name, state } of nodes) {
    for (const link of state.links) {
      const owned = link.addresses.find(({ address }) => clusterIPs.has(address))
      if (!owned) continue
      fail({
        node: name,
        look: onNode(name, 'ip -brief addr'),
        expected: 'no ClusterIP on any interface',
        actual: `${link.name} has ${owned.address}`,
        differences: [
          { kind: 'stale', text: `${owned.address} on ${link.name}`, actual: `${owned.address} dev ${link.name}` },
        ],
        hint: 'An earlier IPVS mode left it there: make flush-nat removes it.',
      })
    }
  }
}
