import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import type { LearnerFact, RoomPushes } from '../../room/protocol.ts'
import { type RoomOptions, type RunningRoom, serveRoom } from '../../room/server/serve-room.ts'

/** A room in this process, with its instructor's page as a test uses it. */
export class RoomFixture {
  readonly folder: string
  readonly room: RunningRoom
  readonly #cookie: string
  readonly #origin: string
  readonly #page: WebSocket
  /** The latest push of each name, and the tiles by number. */
  readonly pushes: Partial<RoomPushes> = {}
  readonly tiles = new Map<number, RoomPushes['tiles'][number]>()

  private constructor(folder: string, room: RunningRoom, cookie: string, page: WebSocket) {
    this.folder = folder
    this.room = room
    this.#cookie = cookie
    this.#origin = new URL(room.url).origin
    this.#page = page
    page.on('error', () => undefined)
    page.on('message', (data) => this.#see(JSON.parse(String(data))))
  }

  static async open(options: Partial<RoomOptions> = {}): Promise<RoomFixture> {
    const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'room-'))
    const fixed = { name: 'spring', host: '127.0.0.1', port: 0, pagePort: 0, plain: false }
    const room = await serveRoom({ ...fixed, files: new Map(), ...options, folder })
    const admission = await fetch(room.url, { redirect: 'manual' })
    const cookie = String(admission.headers.get('set-cookie')).split(';')[0] ?? ''
    const { origin, host } = new URL(room.url)
    const page = new WebSocket(`ws://${host}/events`, { headers: { cookie, origin } })
    return new RoomFixture(folder, room, cookie, page)
  }

  #see(push: Partial<RoomPushes>): void {
    Object.assign(this.pushes, push)
    for (const tile of [...(push.tiles ?? []), ...(push.changed?.tiles ?? [])])
      this.tiles.set(tile.tile, tile)
    for (const tile of push.changed?.removed ?? []) this.tiles.delete(tile)
  }

  /** The tile of a learner by name. */
  named(name: string): RoomPushes['tiles'][number] | undefined {
    return [...this.tiles.values()].find((tile) => tile.name === name)
  }

  /** Performs an action of the instructor's page. */
  async perform(name: string, input: object): Promise<Record<string, unknown>> {
    const reply = await fetch(`${this.#origin}/api/${name}`, {
      method: 'POST',
      headers: { cookie: this.#cookie, origin: this.#origin, 'content-type': 'application/json' },
      body: JSON.stringify(input),
    })
    return (await reply.json()) as Record<string, unknown>
  }

  async end({ keep = false } = {}): Promise<void> {
    this.#page.terminate()
    await this.room.end()
    if (!keep) rmSync(this.folder, { recursive: true, force: true })
  }
}

export const nameFact = (name: string): LearnerFact => ({ kind: 'name', name })

export const stepFact = (
  step: string,
  verdict: 'passed' | 'failed' = 'failed',
  found = '3 stale chains',
): LearnerFact => ({
  kind: 'step',
  lab: 2,
  step,
  verdict,
  points: verdict === 'passed' ? 5 : 0,
  hints: 0,
  ...(verdict === 'failed' && {
    finding: {
      node: 'k8s-guide-worker2',
      command: 'make exec NODE=k8s-guide-worker2',
      expected: 'none',
      found,
      differences: [],
    },
  }),
})
