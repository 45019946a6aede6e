// When the nodes are read: immediately and often during activity, rarely otherwise. Reading them takes 0.25 s of CPU on the
// embedded cluster's own kernel; signs.ts detects activity.

import { setTimeout as pause } from 'node:timers/promises'
import type { Cluster } from '../../cluster/driver.ts'
import { reportsPrograms, watchObjects, watchPrograms } from './signs.ts'

/** The shortest pause between two reads during activity; where a read takes longer, so does the pause: half of the time is for other work. */
const BUSY_PAUSE_MS = 350
/** The duration of activity after its last sign. */
const BUSY_MS = 1500
/** The time in which a program on a node has its effect. */
const PROGRAM_MS = 700
/**
 * The longest pause between two reads without activity: where started programs are reported, and where they are not. There (kind,
 * a context) one read is an exec on each node through the container engine or the API server, so an idle page that read every
 * second would keep a part of a core busy; a command of a terminal and an event of the API still are signs.
 */
const IDLE_PAUSE_MS = 20_000
const BLIND_PAUSE_MS = 5000
/** The pause before nodes are read again that could not be read. */
const UNREAD_PAUSE_MS = 1000

/** What one read of the nodes found: a change, none, or that they could not be read. */
export type Observed = 'changed' | 'unchanged' | 'unread'

export class Watch {
  readonly #cluster: Cluster
  readonly #look: () => Promise<Observed>
  readonly #over = new AbortController()
  #waiting = new AbortController()
  #watched = false
  #signAt = 0
  #programAt = 0

  /** `look` reads the nodes. */
  constructor(cluster: Cluster, look: () => Promise<Observed>) {
    this.#cluster = cluster
    this.#look = look
  }

  /** Reports activity: the nodes are read now. */
  sign(): void {
    this.#signAt = Date.now()
    this.#waiting.abort()
  }

  /** The nodes are read only while a page is connected. */
  setWatched(watched: boolean): void {
    this.#watched = watched
    this.sign()
  }

  end(): void {
    this.#over.abort()
    this.#waiting.abort()
  }

  /** Reads the nodes until `end`. */
  async run(): Promise<void> {
    void watchObjects(this.#cluster, () => this.sign(), this.#over.signal)
    while (!this.#over.signal.aborted) {
      this.#waiting = new AbortController()
      if (!this.#watched) {
        await this.#until(2 ** 31 - 1)
        continue
      }
      const began = Date.now()
      const observed = await this.#look()
      const now = Date.now()
      if (observed === 'changed') this.#signAt = now
      const isBusy = now - this.#signAt < BUSY_MS || now - this.#programAt < PROGRAM_MS
      if (isBusy) await pause(Math.max(BUSY_PAUSE_MS, now - began))
      else if (observed === 'unread') await this.#until(UNREAD_PAUSE_MS)
      else await this.#untilProgram(quietPauseMs(now - this.#signAt, reportsPrograms(this.#cluster)))
    }
  }

  /** Waits for a sign of activity, at most `ms`. */
  async #until(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#waiting.signal }).catch(() => {})
  }

  /** Waits until a sign, until a program is started on a node that reports it, or for `ms`. */
  async #untilProgram(ms: number): Promise<void> {
    const waiting = this.#waiting
    // kube-proxy starts programs every 30 s: unless one changes something, it is no sign of activity.
    const onProgram = () => {
      if (waiting.signal.aborted) return
      this.#programAt = Date.now()
      waiting.abort()
    }
    if (reportsPrograms(this.#cluster))
      void watchPrograms(this.#cluster, onProgram, waiting.signal).catch(() => this.sign())
    await this.#until(ms)
    waiting.abort()
  }
}

/** The pause after so long without a sign. It grows slowly: what a program does after it was started is no further sign. */
export const quietPauseMs = (quietMs: number, reportsPrograms: boolean): number =>
  Math.min(reportsPrograms ? IDLE_PAUSE_MS : BLIND_PAUSE_MS, Math.max(BUSY_PAUSE_MS, quietMs / 4))
