/** Changes that arrive within this time are one sync. */
const coalesceMs = 20

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
  private due = Number.POSITIVE_INFINITY
  private running: Promise<void> = Promise.resolve()
  private busy = false
  private asked = false
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
    this.asked = true
    if (!this.busy) this.schedule(this.waitForToken())
  }

  /** Resolves when what was asked for so far is done, or has failed and is tried again later, or when the loop has ended. */
  settled(): Promise<void> {
    if (this.stopped || !(this.asked || this.busy)) return Promise.resolve()
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  /** Ends the loop; resolves when the sync that was under way is done. */
  async stop(): Promise<void> {
    this.stopped = true
    clearTimeout(this.timer)
    await this.running
    this.release()
  }

  private waitForToken(): number {
    const { minIntervalMs, burst } = this.options
    if (minIntervalMs <= 0) return coalesceMs
    const now = Date.now()
    const earned = Math.floor((now - this.refilledAt) / minIntervalMs)
    if (earned > 0) {
      this.tokens = Math.min(burst, this.tokens + earned)
      this.refilledAt = now
    }
    return this.tokens > 0 ? coalesceMs : Math.max(coalesceMs, minIntervalMs - (now - this.refilledAt))
  }

  private schedule(delayMs: number): void {
    const at = Date.now() + delayMs
    if (this.stopped || at >= this.due) return
    clearTimeout(this.timer)
    this.due = at
    this.timer = setTimeout(() => {
      this.running = this.run()
    }, delayMs)
  }

  private async run(): Promise<void> {
    const periodic = !this.asked
    this.due = Number.POSITIVE_INFINITY
    this.asked = false
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
    this.schedule(next)
    if (this.asked) this.schedule(this.waitForToken())
    else this.release()
  }

  private release(): void {
    for (const resolve of this.waiting.splice(0)) resolve()
  }
}
