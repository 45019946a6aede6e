import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import { findService, webService } from '../../grading/web-service.ts'
import { backendsOnTwoNodes } from '../02-ipvs/web.ts'
import { mustBeWrittenEverywhere } from './exposed-service.ts'

/** web stands on two workers, kube-proxy runs in iptables mode, and every node has the chains of its ClusterIP. */
export function webInIptablesMode(context: CheckContext): void {
  const { snapshot, nodes } = context
  const other = nodes.find((node) => node.mode !== 'iptables')
  if (other)
    fail({
      node: other.name,
      look: onNode(other.name, 'curl -s localhost:10249/proxyMode'),
      expected: 'kube-proxy in iptables mode, whose chains this lab reads',
      actual: other.mode ?? 'no kube-proxy answers on this node',
      hint: 'make iptables brings the mode back, and make flush-nat removes what the other one left.',
    })
  backendsOnTwoNodes(context)
  const service = findService(snapshot, webService(snapshot).name)
  if (service)
    mustBeWrittenEverywhere(
      nodes,
      { service },
      {
        chains: [],
        look: 'iptables -t nat -S | grep default/web',
        expected: 'a KUBE-SVC chain for web that leads to each of its Pods',
      },
    )
}
