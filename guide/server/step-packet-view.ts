// The packet of the step that is shown, for the pages: its path now, as it was when the step was opened, and one to compare with.

import { pathOn } from '../../course/node-paths.ts'
import { readStepPackets, routeOf, type StepPacket } from '../../course/step-packet.ts'
import { PacketError, parsePacket } from '../../dataplane/trace.ts'
import type { PacketPath } from '../../dataplane/view/packet-path.ts'
import { Trouble } from '../../grading/failure.ts'
import { type Snapshot, stateOf } from '../../grading/snapshot.ts'
import type { StepPacketPush } from '../protocol.ts'
import { drawn } from './packet-paths.ts'

export class StepPacketView {
  readonly #packets = readStepPackets()
  #key = ''
  /** The path when the step was opened, or when its packet could be sent for the first time since. */
  #before: PacketPath | undefined

  /** Whether a step is about a packet. */
  has(lab: number, step: string): boolean {
    return this.#packets[`${lab}/${step}`] !== undefined
  }

  /** The push for a step, from a snapshot that was read thoroughly; null if it has no packet, or one that can not be sent yet. */
  see(lab: number, step: string, snapshot: Snapshot): StepPacketPush | null {
    const key = `${lab}/${step}`
    if (key !== this.#key) this.#before = undefined
    this.#key = key
    const packet = this.#packets[key]
    if (!packet) return null
    const found = pathFor(packet, snapshot, packet.from)
    if (!found) return null
    this.#before ??= found.path
    const beside = packet.beside && pathFor(packet, snapshot, packet.beside)
    const isChanged =
      JSON.stringify(this.#before.journey) !== JSON.stringify(found.path.journey) ||
      this.#before.mode !== found.path.mode
    return {
      step,
      at: packet.at,
      from: found.from,
      to: found.to,
      node: found.path.node,
      path: drawn(found.path),
      ...(isChanged && { before: drawn(this.#before) }),
      ...(beside && { beside: { from: beside.from, path: drawn(beside.path) } }),
    }
  }
}

function pathFor(
  packet: StepPacket,
  snapshot: Snapshot,
  sender: string,
): { from: string; to: string; path: PacketPath } | undefined {
  try {
    const route = routeOf(packet, snapshot, sender)
    if (!route) return undefined
    const { from, to, node, origin } = route
    const state = stateOf(snapshot.node(node))
    return { from, to, path: pathOn(snapshot, node, state, parsePacket(origin, to)) }
  } catch (error) {
    // A node that can't be read, which the page tells elsewhere, or families that differ.
    if (error instanceof Trouble || error instanceof PacketError) return undefined
    throw error
  }
}
