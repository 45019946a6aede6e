/** Changes that follow each other within this time are one sync: somebody creates twenty Services one after the other. */
const coalesceMs = 40
/** No change waits longer than this for others. */
const longestMs = 250

export interface SyncLoopOptions {
  /** At least this long between two syncs, after a burst (kube-proxy's BoundedFrequencyRunner). */
  minIntervalMs: number
  /** So many syncs may follow each other at once after a quiet time. */
  burst: number
  /** A sync at least this often, changes or not. */
  maxIntervalMs: number
  /** One sync; `periodic` when nothing but the clock asked for it. Rejecting is reported and retried. */
  sync(periodic: boolean): Promise<void>
  retryMs: number
  onError(error: unknown): void
}

/** Runs syncs one at a time: soon after a change, never more often than allowed, and at intervals by itself. */
export class SyncLoop {
  private readonly options: SyncLoopOptions
  private timer: NodeJS.Timeout | undefined
  /** When the clock, or what failed, asks for a sync. */
  private clock = Number.POSITIVE_INFINITY
  private running: Promise<void> = Promise.resolve()
  private busy = false
  /** When the first change came that no sync has begun for yet. */
  private askedAt: number | undefined
  private stopped = false
  private waiting: (() => void)[] = []
  private tokens: number
  private refilledAt = Date.now()

  constructor(options: SyncLoopOptions) {
    this.options = options
    this.tokens = options.burst
  }

  /** Asks for a sync because something changed. */
  request(): void {
    this.askedAt ??= Date.now()
    if (!this.busy) this.schedule()
  }

  /** Resolves when what was asked for so far is done, or has failed and is tried again later, or when the loop has ended. */
  settled(): Promise<void> {
    if (this.stopped || (this.askedAt === undefined && !this.busy)) return Promise.resolve()
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  /** Ends the loop; resolves when the sync that was under way is done. */
  async stop(): Promise<void> {
    this.stopped = true
    clearTimeout(this.timer)
    await this.running
    this.release()
  }

  /** Milliseconds until a sync may begin again. */
  private waitForToken(): number {
    const { minIntervalMs, burst } = this.options
    if (minIntervalMs <= 0) return 0
    const now = Date.now()
    const earned = Math.floor((now - this.refilledAt) / minIntervalMs)
    if (earned > 0) {
      this.tokens = Math.min(burst, this.tokens + earned)
      this.refilledAt = now
    }
    return this.tokens > 0 ? 0 : minIntervalMs - (now - this.refilledAt)
  }

  /** Sets the timer anew: for the change that came just now, if there is one that waits, and for the clock. */
  private schedule(): void {
    clearTimeout(this.timer)
    if (this.stopped) return
    const now = Date.now()
    const quiet = this.askedAt === undefined ? Number.POSITIVE_INFINITY : this.askedAt + longestMs - now
    const asked = Math.max(Math.min(coalesceMs, quiet), this.waitForToken())
    const delay = Math.max(0, this.askedAt === undefined ? this.clock - now : Math.min(asked, this.clock - now))
    this.timer = setTimeout(() => {
      this.running = this.run()
    }, delay)
  }

  private async run(): Promise<void> {
    const periodic = this.askedAt === undefined
    this.askedAt = undefined
    this.busy = true
    if (!periodic) {
      this.waitForToken()
      this.tokens = Math.max(0, this.tokens - 1)
    }
    let next = this.options.maxIntervalMs
    try {
      await this.options.sync(periodic)
    } catch (error) {
      if (!this.stopped) this.options.onError(error)
      next = Math.min(next, this.options.retryMs)
    }
    this.busy = false
    this.clock = Date.now() + next
    this.schedule()
    if (this.askedAt === undefined) this.release()
  }

  private release(): void {
    for (const resolve of this.waiting.splice(0)) resolve()
  }
}
