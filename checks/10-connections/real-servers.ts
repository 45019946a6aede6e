// Lab 10: a deleted Pod in IPVS mode. Its real server keeps its connections with weight 0;
// templates of session affinity are another matter.

import * as z from 'zod'
import type { VirtualServer } from '../../dataplane/ipvsadm-save.ts'
import {
  type CheckContext,
  type EvidenceCheck,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { timedRequests } from './access-log.ts'
import { expectReady, holdConnection, type Shop, type ShopEndpoint, shopClient } from './shop.ts'
import { lateRequestOfClient, lateRequests, shopWithLeaving } from './terminating.ts'

const STEP = 'weight'
const KEPT = 'weigh'
const LOYAL = 'loyal'
const FREE = 'free'
const TEMPLATES = '/proc/sys/net/ipv4/vs/expire_quiescent_template'
const show = (word: string) => `kubectl logs -l app=shop --prefix --tail=-1 | grep ${word}`
const send = (word: string) => `kubectl exec client -- curl -s "http://$SHOP/?${word}"`

const listServers = ({ name }: NodeView, { address, port }: Shop) =>
  onNode(name, `ipvsadm -Ln -t ${address}:${port}`)

/** The virtual server of shop's ClusterIP on a node; fails if there is none. */
function virtualServerOf(node: NodeView, shop: Shop): VirtualServer {
  const { address, port } = shop
  const found = stateOf(node).virtualServers.find(
    (server) => server.protocol === 'TCP' && server.address === address && server.port === port,
  )
  return expectFound(found, {
    node: node.name,
    inspect: listServers(node, shop),
    expected: `a virtual server for ${address}:${port}`,
  })
}

/** The weight of an endpoint's real server; undefined if there is none. */
const weightOf = ({ realServers }: VirtualServer, { address }: ShopEndpoint) =>
  realServers.find((real) => real.address === address)?.weight

const weightText = (weight: number | undefined) =>
  weight === undefined ? 'no real server' : `weight ${weight}`

/**
 * On every node ready endpoints have weight 1; on the client's node the one that terminates keeps
 * its real server with weight 0.
 */
export const weightIsZero = onceSeen(STEP, async (context: CheckContext) => {
  expectMode(context, 'ipvs', { hint: 'This step is about IPVS mode:', next: 'make ipvs' })
  const shop = shopWithLeaving(context)
  expectReady(shop, 1)
  const { node: own } = shopClient(context.snapshot)
  for (const node of context.nodes) {
    const server = virtualServerOf(node, shop)
    for (const endpoint of shop.endpoints.filter(({ ready }) => ready)) {
      const weight = weightOf(server, endpoint)
      expectThat(weight === 1, {
        node: node.name,
        inspect: listServers(node, shop),
        expected: `weight 1 for the ready endpoint ${endpoint.address}`,
        actual: weightText(weight),
      })
    }
  }
  const server = virtualServerOf(own, shop)
  const weights = shop.leaving.map((endpoint) => weightOf(server, endpoint))
  expectThat(weights.includes(0), {
    node: own.name,
    inspect: listServers(own, shop),
    expected: `weight 0 for the endpoint that terminates, ${shop.leaving.map(({ address }) => address).join(' or ')}`,
    actual: weights.map(weightText).join(', '),
    hint: 'Only a connection keeps the real server of a deleted Pod. Open one, and delete the Pod that answers it:',
    next: holdConnection(KEPT),
  })
  return {}
})

const requestsNote = z.looseObject({ loyal: z.string(), free: z.string() })

/**
 * Evidence: the deleted Pod has answered the client over its kept connection, and over a new one
 * while templates were used in spite of weight 0; another Pod has answered since they are not.
 */
export const templateDecided: EvidenceCheck = async (context) => {
  const { live, snapshot } = context
  await lateRequestOfClient(KEPT, holdConnection(KEPT))(context)
  const { client, node } = shopClient(snapshot)
  const { stdout } = await live.readOnNode(node.name, `cat ${TEMPLATES}`)
  expectThat(stdout.trim() === '1', {
    node: node.name,
    inspect: onNode(node.name, `cat ${TEMPLATES}`),
    expected: '1, as kube-proxy sets it',
    actual: stdout.trim(),
    next: onNode(node.name, 'sysctl -w net.ipv4.vs.expire_quiescent_template=1'),
  })
  const isOwn = (request: { client: string }) => request.client === client.address
  const loyal = expectFound((await lateRequests(context, LOYAL)).findLast(isOwn), {
    inspect: show(LOYAL),
    expected: `a request of the Pod client with the word "${LOYAL}" that the deleted Pod answered over a new connection`,
    hint: 'Set expire_quiescent_template to 0 first, while the client keeps its connection:',
    next: send(LOYAL),
  })
  const others = podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)
  const free = expectFound((await timedRequests(live, others, FREE)).findLast(isOwn), {
    inspect: show(FREE),
    expected: `a request of the Pod client with the word "${FREE}" that another Pod answered`,
    hint: 'Set expire_quiescent_template to 1 again, then:',
    next: send(FREE),
  })
  return { loyal: loyal.pod, free: free.pod }
}

/** Predict: what becomes of the real server of a deleted Pod that has connections. */
export function fateOfRealServer(context: CheckContext): Truth {
  const shop = shopWithLeaving(context)
  const { node } = shopClient(context.snapshot)
  const server = virtualServerOf(node, shop)
  const weights = shop.leaving.map((endpoint) => weightOf(server, endpoint))
  const accepted = weights.includes(0)
    ? 'weight-0'
    : weights.includes(undefined)
      ? 'removed'
      : 'nothing'
  return {
    accepts: [accepted],
    inspect: listServers(node, shop),
    wrong: [
      {
        when: 'removed',
        because:
          'IPVS forwards the packets of a connection by its real server. Without it they are dropped, or the client is reset.',
      },
      {
        when: 'nothing',
        because: 'Then the scheduler would still choose a Pod that is about to end.',
      },
    ],
    because:
      'The scheduler leaves out weight 0, and connections that exist go on. kube-proxy removes the real server once it has none.',
  }
}

/**
 * Question: which Pod answered the new connection while templates were used in spite of weight 0.
 */
export function whoAnsweredLoyal({ notes }: CheckContext): Truth {
  const { loyal, free } = expectFound(notes.read(evidenceKey(STEP), requestsNote), {
    inspect: show(LOYAL),
    expected: 'your two requests over new connections',
    next: send(LOYAL),
  })
  return {
    accepts: [loyal === free ? 'a-ready-pod' : 'the-deleted-pod'],
    inspect: show(LOYAL),
    wrong: [
      {
        when: (answer) => answer !== 'the-deleted-pod',
        because:
          'Weight 0 is for the scheduler. It was not asked: IPVS had a template of session affinity for this client.',
      },
    ],
    because: `The template decided before any weight. With 1, a template whose real server has weight 0 is not used: ${free} answered.`,
  }
}
