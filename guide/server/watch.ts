// When the nodes are looked at: at once and often while something happens, and hardly ever while nothing does. A look costs
// 0.25 s on the embedded cluster's own kernel; signs.ts has what tells that one is due.

import { setTimeout as pause } from 'node:timers/promises'
import type { Cluster } from '../../cluster/driver.ts'
import { reportsPrograms, watchObjects, watchPrograms } from './signs.ts'

/** Between two looks while something happens. */
const BUSY_PAUSE_MS = 350
/** What began with a sign may go on so long without another one. */
const BUSY_MS = 1500
/** Between two looks while there is no sign: where programs are reported, and elsewhere. */
const IDLE_PAUSE_MS = 20_000
const BLIND_PAUSE_MS = 1000

export class Watch {
  readonly #cluster: Cluster
  readonly #look: () => Promise<boolean>
  readonly #over = new AbortController()
  #waiting = new AbortController()
  #watched = false
  #signAt = 0

  /** `look` resolves to false when the nodes could not be read. */
  constructor(cluster: Cluster, look: () => Promise<boolean>) {
    this.#cluster = cluster
    this.#look = look
  }

  /** Something happens: the nodes are looked at now. */
  sign(): void {
    this.#signAt = Date.now()
    this.#waiting.abort()
  }

  /** Nodes are only looked at while a page shows what they hold. */
  setWatched(watched: boolean): void {
    this.#watched = watched
    this.sign()
  }

  end(): void {
    this.#over.abort()
    this.#waiting.abort()
  }

  /** Looks until the end. */
  async run(): Promise<void> {
    void watchObjects(this.#cluster, () => this.sign(), this.#over.signal)
    while (!this.#over.signal.aborted) {
      this.#waiting = new AbortController()
      const couldRead = !this.#watched || (await this.#look())
      if (!this.#watched) await this.#until(2 ** 31 - 1)
      else if (Date.now() - this.#signAt < BUSY_MS) await pause(BUSY_PAUSE_MS)
      else if (!couldRead || !reportsPrograms(this.#cluster)) await this.#until(BLIND_PAUSE_MS)
      else await this.#untilProgram()
    }
  }

  /** Waits until a sign, at most so long. */
  async #until(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#waiting.signal }).catch(() => {})
  }

  /** Waits until a sign, or until a program is started on a node. */
  async #untilProgram(): Promise<void> {
    const { signal } = this.#waiting
    const lost = () => this.sign()
    void watchPrograms(this.#cluster, () => signal.aborted || this.sign(), signal).catch(lost)
    // A program that was started during the last look is not reported: what follows a sign soon is looked for as soon.
    const quietMs = Date.now() - this.#signAt
    await this.#until(Math.min(IDLE_PAUSE_MS, Math.max(BUSY_PAUSE_MS, quietMs / 4)))
    this.#waiting.abort()
  }
}
