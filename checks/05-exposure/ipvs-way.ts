import { printEndpoint } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { webService } from '../../grading/web-service.ts'
import { dummyDeviceOwnsClusterIPs } from '../02-ipvs/equality.ts'

/**
 * What this lab's packets meet in IPVS mode on a node is as kube-proxy makes it: the addresses of kube-ipvs0, and the virtual
 * server of web. Else what is seen would be somebody's mistake, and no property of the mode.
 */
export function ipvsIsAsMade(context: CheckContext, node: string): void {
  const { snapshot } = context
  const nodes = [snapshot.node(node)]
  dummyDeviceOwnsClusterIPs({ ...context, nodes })
  const { name, address, port } = webService(snapshot)
  expectNodes(nodes)
    .virtualServer(`TCP ${printEndpoint(address, port)}`)
    .equalPrediction('ipvs', `a virtual server for ${name} with each of its Pods`)
}
