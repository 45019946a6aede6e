import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { findService, webService } from '../../grading/web-service.ts'
import { backendsOnTwoNodes } from '../02-ipvs/web.ts'
import { mustBeWrittenEverywhere } from './exposed-service.ts'

/** web stands on two workers, kube-proxy runs in iptables mode, and every node has the chains of its ClusterIP. */
export function webInIptablesMode(context: CheckContext): void {
  const { snapshot, nodes } = context
  expectNodes(nodes).runMode('iptables', {
    expected: 'kube-proxy in iptables mode, whose chains this lab reads',
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
