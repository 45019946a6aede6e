import type { CheckContext } from '../../grading/check-context.ts'
import { mustEqualPrediction, onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'

const DEVICE = 'kube-ipvs0'

/** kube-ipvs0 is a dummy device, down and NOARP, and has every ClusterIP and nothing else. */
export function dummyDeviceOwnsClusterIPs({ nodes }: CheckContext): void {
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: (where) => 'link' in where && where.link === DEVICE,
    look: `ip -d addr show ${DEVICE}`,
    expected: `every ClusterIP, and no other address, on ${DEVICE}`,
  })
  for (const { name, state } of nodes) {
    const link = state.links.find((candidate) => candidate.name === DEVICE)
    const faults = [
      ...(link?.kind === undefined || link.kind === 'dummy' ? [] : [`it is of kind ${link.kind}`]),
      ...(link?.flags.includes('NOARP') ? [] : ['it answers ARP (no NOARP flag)']),
      ...(link?.flags.includes('UP') ? ['it is UP'] : []),
    ]
    if (faults.length > 0)
      fail({
        node: name,
        look: onNode(name, `ip -d link show ${DEVICE}`),
        expected: `${DEVICE} as a dummy device, down and with NOARP`,
        actual: faults.join(', '),
        why: 'The device only holds addresses. If it took part in ARP, every node would claim every ClusterIP on the wire.',
        hint: `ip link set ${DEVICE} down arp off on that node puts it right.`,
      })
  }
}
