/** Something measured, and how long a fixed piece of work took at the same time. */
export interface Paced {
  work: number
}

/** Work that takes so many times what it can take was slowed down by somebody else. */
const SLOWED = 1.2

/** How fast the machine is when nobody else wants it, as far as this run has seen. */
export class Pace {
  #fastest = Number.POSITIVE_INFINITY
  readonly #patience: number

  /** @param patience how many batches are taken at most */
  constructor(patience: number) {
    this.#patience = patience
  }

  /**
   * Takes batches until enough was measured while the machine was not slowed down. Returns as many as are
   * wanted, those with the fastest work, in the order in which they were taken.
   */
  async steadiest<Measured extends Paced>(wanted: number, batch: () => Promise<Measured[]>): Promise<Measured[]> {
    const taken: Measured[] = []
    for (let batches = 0; batches < this.#patience && this.#steady(taken) < wanted; batches++) {
      taken.push(...(await batch()))
      this.#fastest = Math.min(this.#fastest, ...taken.map(({ work }) => work))
    }
    const kept = new Set([...taken].sort((a, b) => a.work - b.work).slice(0, wanted))
    return taken.filter((one) => kept.has(one))
  }

  #steady(taken: readonly Paced[]): number {
    return taken.filter(({ work }) => work <= SLOWED * this.#fastest).length
  }
}
