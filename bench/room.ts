// A room with simulated learners: how long a verdict takes from a learner's machine to its tile,
// and what the room needs for it.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { projectRoot, START } from '../host/layout.ts'
import { waitFor } from '../host/wait.ts'
import type { LearnerTile, RoomPushes } from '../room/protocol.ts'
import { roomFolder } from '../room/server/room-files.ts'
import { recordLab, SimulatedLearner } from './simulated-class.ts'

const ROOM = 'bench'
const LEARNERS = 300
/**
 * The class changes this many times; 300 learners who pass a step every two minutes are 2.5
 * verdicts a second, this is ten times as many.
 */
const VERDICTS = 600
const VERDICT_GAP_MS = 40

/** `make room` in a process of its own, with a connection like that of the instructor's page. */
class MeasuredRoom {
  readonly process: ChildProcess
  readonly word: string
  readonly tiles = new Map<string, LearnerTile>()
  readonly #page: WebSocket
  onTile: (tile: LearnerTile) => void = () => undefined

  private constructor(room: ChildProcess, word: string, page: WebSocket) {
    this.process = room
    this.word = word
    this.#page = page
    page.on('error', () => undefined)
    page.on('message', (data) => this.#see(JSON.parse(String(data))))
  }

  static async open(name: string): Promise<MeasuredRoom> {
    const env = { ...process.env, ROOM: name, HOST: '127.0.0.1', NO_COLOR: '1' }
    const room = spawn(process.execPath, [START, 'scripts/room.ts'], {
      cwd: projectRoot,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    room.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    const [, url, word] = await waitFor('the room', 60_000, async () =>
      /(http:\S+)[\s\S]*ROOM=(https:\S+)/.exec(printed),
    )
    const admission = await fetch(url ?? '', { redirect: 'manual' })
    const cookie = String(admission.headers.get('set-cookie')).split(';')[0] ?? ''
    const { origin, host } = new URL(url ?? '')
    const page = new WebSocket(`ws://${host}/events`, { headers: { cookie, origin } })
    return new MeasuredRoom(room, word ?? '', page)
  }

  #see({ tiles = [], changed }: Partial<RoomPushes>): void {
    for (const tile of [...tiles, ...(changed?.tiles ?? [])]) {
      this.tiles.set(tile.name, tile)
      this.onTile(tile)
    }
  }

  /** The largest resident memory so far, in MB. */
  get peakMemory(): number {
    const status = readFileSync(`/proc/${this.process.pid}/status`, 'utf8')
    return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024)
  }

  /** Seconds of processor time so far. */
  get processorSeconds(): number {
    const stat = readFileSync(`/proc/${this.process.pid}/stat`, 'utf8')
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
    return (Number(user) + Number(system)) / TICKS
  }

  async end(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    this.#page.terminate()
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    this.process.kill(signal)
    await once(this.process, 'exit')
  }
}

/** Clock ticks of /proc/PID/stat in a second (sysconf _SC_CLK_TCK). */
const TICKS = 100

/** Learners who come at once. */
const AT_ONCE = 30

/** A class whose learners are connected and at the first round of a recorded lab. */
async function simulateClass(room: MeasuredRoom, count: number): Promise<SimulatedLearner[]> {
  const recorded = await recordLab(join(projectRoot, 'data/solved/lab-2-embedded.labgrade'))
  const learners: SimulatedLearner[] = []
  try {
    while (learners.length < count) {
      const learner = new SimulatedLearner(room.word, `seat ${learners.length + 1}`, recorded)
      learners.push(learner)
      learner.go(1)
      if (learners.length % AT_ONCE !== 0 && learners.length < count) continue
      await waitFor('the learners’ tiles', 60_000, async () =>
        learners.every(({ name }) => room.tiles.get(name)?.step !== undefined),
      )
    }
  } catch (error) {
    for (const learner of learners) learner.end()
    throw error
  }
  return learners
}

/**
 * Prints how long verdicts take to the tiles of a class, with memory and processor time of the
 * room.
 */
export async function measureRoom(): Promise<void> {
  rmSync(roomFolder(ROOM), { recursive: true, force: true })
  const room = await MeasuredRoom.open(ROOM)
  let learners: SimulatedLearner[] = []
  try {
    const began = performance.now()
    learners = await simulateClass(room, LEARNERS)
    const joined = (performance.now() - began) / 1000
    const times = await measureVerdicts(room, learners)
    const at = (share: number) => Math.round(times[Math.floor(share * (times.length - 1))] ?? 0)
    console.log(
      `A room with ${LEARNERS} learners (all there after ${joined.toFixed(1)} s), ${times.length} verdicts, ${Math.round(1000 / VERDICT_GAP_MS)} a second, from the learner to its tile: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, most ${at(1)} ms; the room: at most ${room.peakMemory} MB, ${room.processorSeconds.toFixed(1)} s of the processor.`,
    )
  } finally {
    for (const learner of learners) learner.end()
    await room.end()
    rmSync(roomFolder(ROOM), { recursive: true, force: true })
  }
}

/** The milliseconds of each verdict, in ascending order. */
async function measureVerdicts(
  room: MeasuredRoom,
  learners: readonly SimulatedLearner[],
): Promise<number[]> {
  const sentAt = new Map<string, number>()
  const times: number[] = []
  room.onTile = ({ name, points }) => {
    const at = sentAt.get(name)
    const learner = learners.find((one) => one.name === name)
    if (at === undefined || learner?.points !== points) return
    times.push(performance.now() - at)
    sentAt.delete(name)
  }
  for (let index = 0; index < VERDICTS; index++) {
    const learner = learners[index % learners.length]
    if (!learner) continue
    await waitFor('the verdict before', 30_000, async () => !sentAt.has(learner.name))
    sentAt.set(learner.name, performance.now())
    learner.toggle()
    // The rate is what is measured.
    await pause(VERDICT_GAP_MS)
  }
  await waitFor('the last verdicts', 30_000, async () => sentAt.size === 0)
  return times.sort((one, other) => one - other)
}
