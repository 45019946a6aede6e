// Lab 10: a node whose only Pod of shop is being deleted: what a load balancer is told about it,
// and whose connections it still takes.

import {
  type CheckContext,
  type EvidenceCheck,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { allPodsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { EXAMPLE_CLIENT } from '../../grading/requests.ts'
import { nodeAddressOf } from '../../grading/snapshot.ts'
import { expectShopProgrammed, type ShopEndpoint, shopClient } from './shop.ts'
import { lateRequests, requireTerminatingEndpoints, shopWithLeaving } from './terminating.ts'

const WORD = 'through'
const MAKE_LOCAL = `kubectl patch service shop -p '{"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local"}}'`

/**
 * A node on which shop has endpoints that terminate, and no ready one; with the ports that are for
 * a load balancer.
 */
interface EmptyingNode {
  name: string
  address: string
  leaving: ShopEndpoint
  nodePort: number
  healthPort: number
}

/**
 * The node that has an endpoint of shop that terminates, and no ready one; fails if the policy is
 * another one or there is no such node.
 */
function emptyingNode(context: CheckContext): EmptyingNode {
  const { service, endpoints, leaving } = shopWithLeaving(context)
  const nodePort = service.ports[0]?.nodePort ?? 0
  const healthPort = service.healthCheckNodePort
  const isLocal = service.externalTrafficPolicy === 'Local' && nodePort > 0 && healthPort > 0
  expectThat(isLocal, {
    inspect: 'kubectl get service shop -o yaml',
    expected: 'shop of type LoadBalancer with externalTrafficPolicy Local',
    actual: `${service.type} with ${service.externalTrafficPolicy}`,
    next: MAKE_LOCAL,
  })
  const busy = new Set(endpoints.filter(({ ready }) => ready).map(({ node }) => node))
  const found = expectFound(
    leaving.find(({ node }) => !busy.has(node)),
    {
      inspect: 'kubectl get pods -l app=shop -o wide',
      expected: 'a node whose only Pod of shop is being deleted',
      hint: 'The new Pod must run elsewhere: cordon the node before you delete its Pod, as in step terminating.',
    },
  )
  const address = nodeAddressOf(context.snapshot, found.node)
  return { name: found.node, address, leaving: found, nodePort, healthPort }
}

/**
 * Where the rules of this node lead new connections: to its node port from outside, and to the
 * ClusterIP from inside.
 */
function goalsOn(context: CheckContext, { name, address, nodePort }: EmptyingNode) {
  const node = context.snapshot.node(name)
  const shop = shopWithLeaving(context)
  const { client } = shopClient(context.snapshot)
  const outside = traceOf(node, { outside: EXAMPLE_CLIENT }, { address, port: nodePort })
  const inside = traceOf(node, client.sender, shop)
  const addresses = ({ outcomes }: typeof inside) => outcomes.map(({ to }) => to.split(':')[0])
  return { outside: addresses(outside), inside: addresses(inside) }
}

/**
 * A node has no ready Pod of shop, and its rules lead connections from outside to the one that
 * terminates.
 */
export const nodeEmpties = onceSeen('local', async (context: CheckContext) => {
  requireTerminatingEndpoints(context)
  const node = emptyingNode(context)
  expectShopProgrammed(context)
  const { outside } = goalsOn(context, node)
  expectThat(outside.includes(node.leaving.address), {
    node: node.name,
    inspect: onNode(node.name, "iptables -t nat -S | grep 'KUBE-SVL.*default/shop -> '"),
    expected: `rules that lead connections to the node port to ${node.leaving.address}`,
    actual: outside.join(', ') || 'to no Pod',
  })
  return {}
})

/**
 * Evidence: the health check port says 503, and the deleted Pod has answered a request that another
 * node sent to the node port.
 */
export const answeredThrough: EvidenceCheck = async (context) => {
  const { snapshot, live } = context
  const node = emptyingNode(context)
  const { name, address, nodePort, healthPort } = node
  const pods = new Set(
    snapshot.items.flatMap(({ kind, spec, status }) =>
      kind === 'Pod' && !spec?.hostNetwork ? (status?.podIP ?? []) : [],
    ),
  )
  const requests = await lateRequests(context, WORD)
  const answered = expectFound(
    requests.findLast(({ client }) => !pods.has(client)),
    {
      inspect: `kubectl logs -l app=shop --prefix | grep ${WORD}`,
      expected: `a request with the word "${WORD}" from another node to the node port, answered by the Pod that was deleted`,
      next: onNode('$CONTROL', `curl -s --max-time 3 http://${address}:${nodePort}/?${WORD}`),
    },
  )
  const status = `curl -s -o /dev/null -w '%{http_code}' --max-time 3 http://${address}:${healthPort} || true`
  const { stdout } = await live.onNode(name, status)
  expectThat(stdout.trim() === '503', {
    node: name,
    inspect: askHealth(node),
    expected: 'status 503 at the health check port: no Pod of this node is ready',
    actual: stdout.trim() === '000' ? 'no answer' : `status ${stdout.trim()}`,
  })
  return answered
}

const askHealth = ({ address, healthPort }: EmptyingNode) =>
  onNode('$CONTROL', `curl -s -w " %{http_code}" http://${address}:${healthPort}`)

/** Predict: what the health check port of the node says. */
export function healthOfNode(context: CheckContext): Truth {
  const node = emptyingNode(context)
  const count = allPodsWithLabel(context.snapshot, 'shop').filter(
    ({ spec }) => spec?.nodeName === node.name,
  ).length
  return {
    accepts: ['503'],
    inspect: askHealth(node),
    wrong: [
      {
        when: '200',
        because: `${count === 1 ? 'Its Pod still answers' : 'Its Pods still answer'}, but kube-proxy counts ready endpoints of the node here, and one that terminates is not ready.`,
      },
    ],
    because:
      'The node has no ready endpoint. A load balancer that reads this sends new connections elsewhere, from its next question on.',
  }
}

/** Question: whose new connections the node still sends to the deleted Pod. */
export function whoseConnections(context: CheckContext): Truth {
  const node = emptyingNode(context)
  const { outside, inside } = goalsOn(context, node)
  const fromOutside = outside.includes(node.leaving.address)
  const fromInside = inside.includes(node.leaving.address)
  const accepted = fromOutside
    ? fromInside
      ? 'both'
      : 'from-outside'
    : fromInside
      ? 'from-inside'
      : 'none'
  return {
    accepts: [accepted],
    inspect: onNode(node.name, "iptables -t nat -S | grep 'default/shop -> '"),
    wrong: [
      {
        when: (answer) => answer === 'both' || answer === 'from-inside',
        because:
          'Clients in the cluster may be answered by any node. There is a ready Pod on another one, and the chain KUBE-SVC- lists only that.',
      },
      {
        when: 'none',
        because:
          'Then all that the load balancer sends before it asks again would be lost. Your request got an answer.',
      },
      {
        when: 'from-outside',
        because:
          'Not as the chains are now: compare KUBE-SVL-, for clients outside, with KUBE-SVC-, for those in the cluster.',
      },
    ],
    because:
      'From outside, Local means the Pods of this node, and of these one is left: it terminates and serves. So nothing is lost until the load balancer has noticed.',
  }
}
