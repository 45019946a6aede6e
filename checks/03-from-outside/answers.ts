// What lab 3 predicts and asks: the truth by the rules and objects of this cluster, with the
// typical wrong answers.

import { contains } from '../../dataplane/ip-address.ts'
import type { CheckContext, EvidenceCheck, Truth } from '../../grading/check-context.ts'
import { webService } from '../../grading/expect-object.ts'
import { Failure, fail, NotApplicable, onNode } from '../../grading/failure.ts'
import { ownRequest } from '../../grading/own-request.ts'
import { tracedTo, traceOf } from '../../grading/packet-trace.ts'
import { EXAMPLE_CLIENT, fromOutside } from '../../grading/requests.ts'
import { controlPlaneOf, type NodeView, nodeAddressOf, stateOf } from '../../grading/snapshot.ts'
import { loadBalancerService, localService, nodePortService } from './exposed-service.ts'

/** True if the rules of a node lead a packet from outside to a Pod behind that port of the node. */
function answersOutside({ snapshot }: CheckContext, node: NodeView, port: number): boolean {
  const to = { address: nodeAddressOf(snapshot, node.name), port }
  return tracedTo(node, fromOutside.sender, to).backends.length > 0
}

const countOfAnswering = (context: CheckContext, port: number): number =>
  context.nodes.filter((node) => answersOutside(context, node, port)).length

const nodesWithPods = ({ snapshot }: CheckContext): number =>
  new Set(webService(snapshot).backends.map(({ node }) => node)).size

/** Predict: on how many nodes the node port answers. */
export function answeringNodes(context: CheckContext): Truth {
  const { nodePort } = nodePortService(context.snapshot)
  const withPods = nodesWithPods(context)
  return {
    accepts: [`${countOfAnswering(context, nodePort)}`],
    inspect: `make exec NODE=outside CMD='curl -s --max-time 3 NODE-ADDRESS:${nodePort}'`,
    wrong: [
      {
        when: `${withPods}`,
        because: `Pods of web run on ${withPods} nodes, but every kube-proxy writes the rules of every Service, also where no Pod runs. Only with policy Local does a node need a Pod of its own.`,
      },
      {
        when: '1',
        because:
          'No single node owns the port: KUBE-NODEPORTS is on each of them, for any local address.',
      },
    ],
    because:
      'The rules of a Service are on every node, and a node may send the packet to a Pod on another one.',
  }
}

/** Predict: which source the Pods see for requests to a node that has a Pod itself. */
export function sourceOnNodeWithPod(context: CheckContext): Truth {
  const { snapshot } = context
  const { nodePort } = nodePortService(snapshot)
  const [backend] = webService(snapshot).backends
  const node = snapshot.node(backend?.node ?? '')
  const address = nodeAddressOf(snapshot, node.name)
  const { outcomes } = traceOf(node, fromOutside.sender, { address, port: nodePort })
  const replaced = outcomes.filter(({ masquerade }) => masquerade).length
  const truth = replaced === 0 ? 'client' : replaced === outcomes.length ? 'node' : 'depends'
  return {
    accepts: [truth],
    inspect: 'kubectl logs -l app=web --prefix --tail=8',
    wrong: [
      {
        when: 'client',
        because:
          'The address of the client would be kept under policy Local. Under Cluster the first rule of KUBE-EXT marks every packet, and KUBE-POSTROUTING masquerades marked packets.',
      },
      {
        when: 'depends',
        because:
          'The mark is set in KUBE-EXT, before a Pod is chosen: whether the chosen Pod is on this node makes no difference.',
      },
    ],
    because:
      'KUBE-EXT marks the packet before KUBE-SVC chooses a Pod, so the node always masquerades.',
  }
}

/** Predict: how many nodes have the load balancer's address. */
export function ownersOfAddress({ snapshot, nodes }: CheckContext): Truth {
  const { address } = loadBalancerService(snapshot)
  const owners = nodes.filter((node) =>
    stateOf(node).links.some(({ addresses }) => addresses.some((one) => one.address === address)),
  )
  return {
    accepts: [`${owners.length}`],
    inspect: "make exec CMD='ip -brief address'",
    wrong: [
      {
        when: `${nodes.length}`,
        because:
          'That would be right in IPVS mode, where kube-ipvs0 of every node has the address. In iptables mode only rules match it.',
      },
      {
        when: '1',
        because:
          'No node speaks for the address. A router outside sends packets for it to the nodes, whose rules match it as the destination.',
      },
    ],
    because:
      'The packet arrives with an address that no node has. The rules translate it before the routing decision.',
  }
}

/** Predict: how many nodes answer on the node port of a Service with policy Local. */
export function answeringNodesUnderLocal(context: CheckContext): Truth {
  const { service, nodePort } = localService(context.snapshot)
  return {
    accepts: [`${countOfAnswering(context, nodePort)}`],
    inspect: `iptables-save | grep ${service.name}`,
    wrong: [
      {
        when: `${context.nodes.length}`,
        because:
          'That is right for policy Cluster. Under Local a node may use its own Pods only, and a node without one drops the packet.',
      },
      {
        when: '1',
        because:
          'Each node with a Pod of web answers with its own Pods, and there are several such nodes.',
      },
    ],
    because:
      'Exactly the nodes with a Pod of web answer; the others drop the packet: "has no local endpoints".',
  }
}

/** Predict: what the control plane replies to a health check. */
export function healthOfControlPlane({ snapshot }: CheckContext): Truth {
  const { service } = localService(snapshot)
  const node = controlPlaneOf(snapshot)?.name ?? ''
  const hasPod = webService(snapshot).backends.some((backend) => backend.node === node)
  return {
    accepts: [hasPod ? '200' : '503'],
    inspect: onNode(
      'outside',
      `curl -i ${nodeAddressOf(snapshot, node)}:${service.healthCheckNodePort}`,
    ),
    wrong: [
      {
        when: hasPod ? '503' : '200',
        because: `The status is not about the health of the node or of kube-proxy: it tells whether this node has an endpoint of the Service, and ${node} has ${hasPod ? 'one' : 'none'}.`,
      },
      {
        when: '404',
        because:
          'kube-proxy listens on this port on every node, also without a Pod: a load balancer must get an answer to know that a node has none.',
      },
    ],
    because: 'kube-proxy answers on every node: 200 with a local endpoint, 503 without one.',
  }
}

/** Predict: whether a client that is not in the ranges reaches the node port. */
export function nodePortOfRefusedClient(context: CheckContext): Truth {
  const { snapshot } = context
  const { service, nodePort } = loadBalancerService(snapshot)
  if (service.loadBalancerSourceRanges.some((range) => contains(range, EXAMPLE_CLIENT)))
    throw new NotApplicable('the ranges admit every client')
  const isServed = context.nodes.some((node) => answersOutside(context, node, nodePort))
  return {
    accepts: [isServed ? 'yes' : 'no'],
    inspect: 'iptables-save | grep -E "KUBE-(FW|PROXY-FIREWALL)"',
    wrong: [
      {
        when: 'no',
        because:
          'Only the rule for the address of the load balancer leads to KUBE-FW. KUBE-NODEPORTS still leads to KUBE-EXT, which does not look at the source.',
      },
    ],
    because:
      'The ranges are a property of the address of the load balancer. A node port needs a firewall of its own, or no node port at all.',
  }
}

const throughNode = ownRequest({ from: 'node' })

/** Evidence of a request through a node port: web logs an address of the node for it. */
export const requestThroughNodePort: EvidenceCheck = async (context) => {
  try {
    return await throughNode(context)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const { nodePort } = nodePortService(context.snapshot)
    return fail({
      ...error.detail,
      expected:
        'a request of your own through the node port, with a word of your choice after "/?", in the access log of a Pod of web',
      hint: `Send one: \`make exec NODE=outside CMD="curl -s NODE-ADDRESS:${nodePort}/?mine"\`.`,
    })
  }
}

/** Evidence of a request from outside for which web logs the client's own address. */
export const requestOfClient: EvidenceCheck = ownRequest({ from: 'outside' })
