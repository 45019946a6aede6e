import { printEndpoint } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode, expectNode } from '../../grading/expect-node.ts'
import { type WebService, webService } from '../../grading/expect-object.ts'
import type { PodRequester } from '../../grading/requests.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { dummyDeviceOwnsClusterIPs } from '../02-ipvs/equality.ts'
import { clientPod } from '../web-client.ts'

/** Where lab 5 judges packets: the client Pod, its node, and web. */
export interface ClientNode {
  client: PodRequester
  node: NodeView
  service: WebService
}

/** Fails when the client Pod is not ready, or web is missing. */
export function clientNode(context: CheckContext): ClientNode {
  const client = clientPod(context, '05-exposure')
  return { client, node: context.snapshot.node(client.node), service: webService(context.snapshot) }
}

/** Advice for a step that needs iptables mode without leftovers. */
export const FROM_IPTABLES_MODE = {
  hint: 'This part of the lab is about iptables mode. Bring it back, and remove what the other mode left:',
  next: 'make iptables && make flush-nat',
}
export const WITH_OLD_RULES = 'make ipvs KUBE_PROXY_VERSION=1.20'
export const WITH_CURRENT_RULES = 'make ipvs KUBE_PROXY_VERSION=own'

/** The same in IPVS mode with the rules of 1.20, if the node equals the prediction. */
export function clientInIpvsMode(context: CheckContext): ClientNode {
  expectMode(context, 'ipvs', { next: WITH_OLD_RULES })
  const place = clientNode(context)
  expectPredictedIpvs(context, place.node)
  return place
}

/**
 * The addresses of kube-ipvs0 and web's virtual server equal the prediction: a fault in them would
 * have the same result as the mode.
 */
export function expectPredictedIpvs(context: CheckContext, node: NodeView): void {
  dummyDeviceOwnsClusterIPs({ ...context, nodes: [node] })
  const { name, address, port } = webService(context.snapshot)
  expectNode(node)
    .virtualServers(`TCP ${printEndpoint(address, port)}`)
    .equalPrediction('ipvs', `a virtual server for ${name} with each of its Pods`)
}
