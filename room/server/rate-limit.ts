// A token bucket: how many messages or bytes a client may send, on average and at once.

export interface Rate {
  perSecond: number
  atOnce: number
}

export class RateLimit {
  readonly #rate: Rate
  #left: number
  #at: number

  constructor(rate: Rate, now = Date.now()) {
    this.#rate = rate
    this.#left = rate.atOnce
    this.#at = now
  }

  /** Takes an amount of what is left; false, without taking any, if less is left. */
  take(amount: number, now = Date.now()): boolean {
    const { perSecond, atOnce } = this.#rate
    const passedMs = Math.max(0, now - this.#at)
    this.#left = Math.min(atOnce, this.#left + (passedMs / 1000) * perSecond)
    this.#at = now
    if (amount > this.#left) return false
    this.#left -= amount
    return true
  }

  /** True if nothing was taken for so long that the bucket is full. */
  isFull(now = Date.now()): boolean {
    return this.take(0, now) && this.#left >= this.#rate.atOnce
  }
}
