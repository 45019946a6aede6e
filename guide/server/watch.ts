// When the nodes are looked at: at once and often while something happens, seldom while nothing does.

import { setTimeout as pause } from 'node:timers/promises'
import type { Cluster } from '../../cluster/driver.ts'

/** Between two looks while something happens. */
const BUSY_PAUSE_MS = 400
/** So long after the last sign of activity something may still happen. */
const BUSY_MS = 4000
/** Between two looks while nothing happens. */
const IDLE_PAUSE_MS = 1500

export class Watch {
  readonly #look: () => Promise<void>
  readonly #over = new AbortController()
  #wake = new AbortController()
  #watched = false
  #activeAt = Date.now()

  constructor(_cluster: Cluster, look: () => Promise<void>) {
    this.#look = look
  }

  /** Something happens: the nodes are looked at now. */
  wake(): void {
    this.#activeAt = Date.now()
    this.#wake.abort()
  }

  /** Nodes are only looked at while a page shows what they hold. */
  setWatched(watched: boolean): void {
    if (watched && !this.#watched) this.wake()
    this.#watched = watched
  }

  end(): void {
    this.#over.abort()
    this.#wake.abort()
  }

  /** Looks until the end. */
  async run(): Promise<void> {
    while (!this.#over.signal.aborted) {
      this.#wake = new AbortController()
      if (this.#watched) await this.#look()
      const isBusy = Date.now() - this.#activeAt < BUSY_MS
      if (this.#watched && isBusy) await pause(BUSY_PAUSE_MS)
      else
        await pause(this.#watched ? IDLE_PAUSE_MS : 2 ** 31 - 1, undefined, { signal: this.#wake.signal }).catch(
          () => {},
        )
    }
  }
}
