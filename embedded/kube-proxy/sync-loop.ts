/**
 * Changes within this time are combined into one sync, for example when twenty Services are
 * created.
 */
const coalesceMs = 40
/** The maximum delay of a change. */
const longestMs = 250

export interface SyncLoopOptions {
  /** Minimum interval of syncs after a burst (kube-proxy's BoundedFrequencyRunner). */
  minIntervalMs: number
  /** Number of syncs without the minimum interval after an idle time. */
  burst: number
  /** Maximum interval of syncs. */
  maxIntervalMs: number
  /** Runs one sync; `periodic` if only the timer caused it. An error is reported and retried. */
  sync(periodic: boolean): Promise<void>
  retryMs: number
  onError(error: unknown): void
}

/**
 * Runs syncs one at a time: shortly after a change, never more often than allowed, and
 * periodically.
 */
export class SyncLoop {
  readonly #options: SyncLoopOptions
  #timer: NodeJS.Timeout | undefined
  /** The time of the next periodic sync or retry. */
  #clock = Number.POSITIVE_INFINITY
  #running: Promise<void> = Promise.resolve()
  #busy = false
  /** The time of the first change that no sync has included yet. */
  #askedAt: number | undefined
  #stopped = false
  #waiting: (() => void)[] = []
  /** When the next sync is due at a steady rate; all but one sync of a burst may be ahead of it. */
  #steadyAt = 0

  constructor(options: SyncLoopOptions) {
    this.#options = options
  }

  /** Requests a sync because of a change. */
  request(): void {
    this.#askedAt ??= Date.now()
    if (!this.#busy) this.#schedule()
  }

  /**
   * Resolves when all requested syncs are done or have failed and will be retried, or when the loop
   * has ended.
   */
  settled(): Promise<void> {
    if (this.#stopped || (this.#askedAt === undefined && !this.#busy)) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Ends the loop; resolves when the running sync is done. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#running
    this.#release()
  }

  /** Resets the timer: for a pending change, and for the periodic sync. */
  #schedule(): void {
    clearTimeout(this.#timer)
    if (this.#stopped) return
    const { minIntervalMs, burst } = this.#options
    const now = Date.now()
    const allowed = this.#steadyAt - (burst - 1) * minIntervalMs - now
    const quiet =
      this.#askedAt === undefined ? Number.POSITIVE_INFINITY : this.#askedAt + longestMs - now
    const asked = Math.max(Math.min(coalesceMs, quiet), allowed)
    const delay = Math.max(
      0,
      this.#askedAt === undefined ? this.#clock - now : Math.min(asked, this.#clock - now),
    )
    this.#timer = setTimeout(() => {
      this.#running = this.#run()
    }, delay)
  }

  async #run(): Promise<void> {
    const periodic = this.#askedAt === undefined
    this.#askedAt = undefined
    this.#busy = true
    if (!periodic)
      this.#steadyAt = Math.max(Date.now(), this.#steadyAt) + this.#options.minIntervalMs
    let next = this.#options.maxIntervalMs
    try {
      await this.#options.sync(periodic)
    } catch (error) {
      if (!this.#stopped) this.#options.onError(error)
      next = Math.min(next, this.#options.retryMs)
    }
    this.#busy = false
    this.#clock = Date.now() + next
    this.#schedule()
    if (this.#askedAt === undefined) this.#release()
  }

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
