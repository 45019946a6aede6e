// The path of a packet on a learner's nodes, for the instructor who looks at this learner.

import { labRoute } from '../../course/lab-packet.ts'
import type { LabSession } from '../../course/lab-session.ts'
import { resolveRoute } from '../../course/read-node.ts'
import { type Packet, parsePacket } from '../../dataplane/trace.ts'
import { packetPath } from '../../dataplane/view/packet-path.ts'
import { modeOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { shortened } from '../../host/plain-text.ts'
import type { ShownPath } from '../protocol.ts'

/** Reads the nodes and follows a packet to the lab's Service. Throws as reading and tracing do. */
export async function readShownPath({ bench, source }: LabSession): Promise<ShownPath> {
  const { cluster, variant } = bench
  const snapshot = await source.snapshot()
  const { from, to } = labRoute(snapshot.items, variant)
  const route = await resolveRoute(cluster, from, to)
  return shownPathOn(snapshot, route.node, parsePacket(route.from, route.to))
}

/** Follows a packet to a Service through a node of a snapshot. */
export function shownPathOn(snapshot: Snapshot, at: string, sent: Packet): ShownPath {
  const view = snapshot.node(at)
  const path = packetPath(stateOf(view), sent, {
    node: at,
    mode: modeOf(view) ?? 'unknown',
    real: true,
    isService: true,
  })
  const { packet, node, mode, legs, local, hooks, ends, conntrack, stop } = path
  return {
    packet,
    node,
    mode,
    real: true,
    legs,
    local,
    hooks: hooks.map(({ hook, actions }) => ({
      hook,
      actions: actions.slice(0, 24).map(({ table, chains, text, probability }) => ({
        table,
        chains: chains.slice(0, 12),
        probability,
        entries: [],
        text: shortened(text, 300),
      })),
    })),
    ends: ends.slice(0, 40).map(({ to, verdict, probability, masquerade, by }) => ({
      verdict,
      probability,
      masquerade,
      ...(to && { to }),
      ...(by && { by: shortened(by, 300) }),
    })),
    ...(conntrack && { conntrack: shortened(conntrack, 400) }),
    ...(stop && {
      stop: {
        hook: stop.hook,
        table: stop.table,
        chain: stop.chain,
        rule: shortened(stop.rule, 400),
        words: shortened(stop.sentence, 400),
      },
    }),
  }
}
