import { targetOf } from '../../dataplane/rule-text.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { clusterService } from '../../grading/web-service.ts'
import { mustRunIptables } from './iptables-mode.ts'
import { serviceChains } from './web-chains.ts'

const NAME = 'three-ports'
const PORTS = 3

/** A Service with three ports has three entries in KUBE-SERVICES of every node, and a chain behind each. */
export function portsCostEntries({ nodes, snapshot }: CheckContext): void {
  mustRunIptables(nodes)
  const { service, address } = clusterService(snapshot, NAME, {
    ports: PORTS,
    expected: `a Service ${NAME} with a ClusterIP and ${PORTS} ports`,
    hint: 'kubectl apply -f labs/01-iptables/manifests/three-services.yaml',
  })
  const chains = serviceChains(service)
  expectNodes(nodes)
    .chainsWhere(
      'nat',
      (chain) => chain === 'KUBE-SERVICES' || chains.includes(chain),
      'iptables -t nat -S KUBE-SERVICES',
    )
    .equalPrediction('iptables', 'an entry of its own for every Service port, and the node-ports rule last')
  for (const { name, state } of nodes) {
    const nat = state.iptables.get('nat')
    const targets = nat?.get('KUBE-SERVICES')?.rules.map(({ spec }) => targetOf(spec)) ?? []
    const missing = chains.filter((chain) => !targets.includes(chain) || !nat?.has(chain))
    if (missing.length === 0) continue
    fail({
      node: name,
      look: onNode(name, 'iptables -t nat -S KUBE-SERVICES'),
      expected: `${service.ports.length} entries for ${address}, each with a chain of its own behind it`,
      actual: `none for ${missing.join(', ')}`,
      hint: 'A Service without ready Pods has no entries here: make web brings Pods for it.',
    })
  }
}
