const firstMs = 10_000
const capMs = 300_000
/** A container that ran this long without trouble starts anew with the first delay (twice the cap, as the kubelet has it). */
const resetMs = 2 * capMs

/**
 * The kubelet's delay before a container is started again: none after the first end, then 10 s, doubled up to five minutes,
 * counted from the moment it ended.
 */
export class RestartBackoff {
  private delayMs = 0
  private lastEnd = 0

  /** Milliseconds to wait now that a run has ended; zero: start at once. */
  next(now: number): number {
    if (this.lastEnd !== 0 && now - this.lastEnd - this.delayMs > resetMs) this.delayMs = 0
    const wait = this.lastEnd === 0 ? 0 : this.delayMs
    this.delayMs = this.delayMs === 0 ? firstMs : Math.min(this.delayMs * 2, capMs)
    this.lastEnd = now
    return wait
  }
}

/** A delay as Go prints durations: `10s`, `1m20s`, `5m0s`. */
export function goDuration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`
}
