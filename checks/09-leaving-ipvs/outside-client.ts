// The client on the machine outside the cluster: its targets, and its log.

import { WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { expectThat, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { programText } from '../../host/program-text.ts'
import { type ClientLog, readClientLog } from './client-log.ts'

/** The line of the text that starts it, with the variables that the two lines before it set. */
export const START_OUTSIDE =
  'make exec NODE=outside CMD="set -- $PROGRAM $TARGETS; $(cat labs/09-leaving-ipvs/outside-client.sh)"'
/** The command that prints its log. */
export const OUTSIDE_LOG = onNode(OUTSIDE, 'cat /run/lab-9/log')

const outsideLog = programText('labs/09-leaving-ipvs/outside-log.sh')

/**
 * The client outside and its log, where the cluster has such a machine. Fails if none was started,
 * or if it has ended.
 */
export async function readOutside(live: LiveCluster): Promise<ClientLog[]> {
  if (!live.cluster.capabilities.hasOutside) return []
  const { stdout } = await live.readOnNode(OUTSIDE, outsideLog)
  const [, uid, state] = /^(\S+) (runs|ended)$/m.exec(stdout) ?? []
  expectThat(uid !== undefined && state === 'runs', {
    inspect: OUTSIDE_LOG,
    expected: 'a client on the machine outside the cluster',
    actual: uid === undefined ? 'none was started' : 'it has ended',
    next: START_OUTSIDE,
  })
  return [{ pod: OUTSIDE, uid, node: OUTSIDE, place: 'outside', ...readClientLog(stdout) }]
}

/**
 * What it must call: the node port of stock on each node, and the addresses of its load balancer.
 */
export function outsideTargets(snapshot: Snapshot): string[] {
  const stock = objectsOf(snapshot).services.find(
    ({ namespace, name }) => namespace === WEB_NAMESPACE && name === 'stock',
  )
  const [port] = stock?.ports ?? []
  if (!stock || !port) return []
  return [
    ...snapshot.nodes.map(({ name }) => `${nodeAddressOf(snapshot, name)}:${port.nodePort}`),
    ...stock.loadBalancerIngress.flatMap(({ ip }) =>
      ip === undefined ? [] : `${ip}:${port.port}`,
    ),
  ]
}
