// The packet of the step that is shown, for the pages: when it is drawn, and its path now, as it
// was when the step was opened, and one to compare with.

import { pathOn } from '../../course/node-paths.ts'
import { readStepPackets, routeOf, type StepPacket } from '../../course/step-packet.ts'
import { PacketError, parsePacket } from '../../dataplane/trace.ts'
import type { PacketPath } from '../../dataplane/view/packet-path.ts'
import { Trouble } from '../../grading/failure.ts'
import { type Snapshot, stateOf } from '../../grading/snapshot.ts'
import type { StepPacketPush } from '../protocol.ts'
import { drawn } from './packet-paths.ts'

/**
 * When the packet of the shown step is drawn: where the step, or what the nodes hold, has changed;
 * beside the reads of the guide, and at the first that finds no further change, because it takes a
 * read of its own, for which no verdict waits.
 */
export class StepPacketDrawing {
  readonly #view = new StepPacketView()
  readonly #read: () => Promise<Snapshot>
  readonly #push: (push: StepPacketPush | null) => void
  readonly #onTrouble: (error: unknown) => void
  #shown = { lab: 0, step: '' }
  #isOld = false
  #isDrawing = false

  /**
   * `read` reads the nodes with their routes. Where it rejects, the packet is drawn after the
   * guide's next read, which tells why. `onTrouble` is called with what a drawing throws.
   */
  constructor(
    read: () => Promise<Snapshot>,
    push: (push: StepPacketPush | null) => void,
    onTrouble: (error: unknown) => void,
  ) {
    this.#read = read
    this.#push = push
    this.#onTrouble = onTrouble
  }

  /**
   * A read of the guide has ended while this step is shown; `isNew`: the nodes have changed since
   * the read before.
   */
  follow(lab: number, step: string, isNew: boolean): void {
    const isOther = !this.#shows(lab, step)
    this.#shown = { lab, step }
    if (isOther && !this.#view.has(lab, step)) this.#push(null)
    if (isOther || isNew) this.#isOld = true
    if (isOther || !isNew) void this.#draw()
  }

  async #draw(): Promise<void> {
    if (this.#isDrawing) return
    this.#isDrawing = true
    while (this.#isOld) {
      this.#isOld = false
      if (!(await this.#drawOnce(this.#shown))) {
        this.#isOld = true
        break
      }
    }
    this.#isDrawing = false
  }

  /**
   * Pushes the packet of a step, if it has one and is still shown. Resolves to false if the nodes
   * can't be read.
   */
  async #drawOnce({ lab, step }: { lab: number; step: string }): Promise<boolean> {
    if (!this.#view.has(lab, step)) return true
    const snapshot = await this.#read().catch(() => undefined)
    if (!snapshot) return false
    try {
      if (this.#shows(lab, step)) this.#push(this.#view.see(lab, step, snapshot))
    } catch (error) {
      this.#onTrouble(error)
    }
    return true
  }

  #shows(lab: number, step: string): boolean {
    return this.#shown.lab === lab && this.#shown.step === step
  }
}

export class StepPacketView {
  readonly #packets = readStepPackets()
  #key = ''
  /**
   * The path when the step was opened, or when its packet could be sent for the first time since.
   */
  #before: PacketPath | undefined

  /** Whether a step is about a packet. */
  has(lab: number, step: string): boolean {
    return this.#packets[`${lab}/${step}`] !== undefined
  }

  /**
   * The push for a step, from a snapshot with routes; null if it has no packet, or one that can not
   * be sent yet.
   */
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
