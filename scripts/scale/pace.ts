/** Something measured, and how fast the machine was meanwhile. */
export interface Paced {
  /** What a fixed piece of work took, the same in the whole run. */
  work: number
  /** What all of it took, where that is the same in each batch. */
  took?: number
}

/** What takes so many times what it can take was slowed down by somebody else. */
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
   * Takes batches until enough was measured while the machine was not slowed down. Returns as many as are wanted, the least
   * slowed down, in the order in which they were taken.
   */
  async steadiest<Measured extends Paced>(wanted: number, batch: () => Promise<Measured[]>): Promise<Measured[]> {
    const taken: Measured[] = []
    let slowed: (one: Measured) => number = () => 1
    for (let batches = 0; batches < this.#patience; batches++) {
      taken.push(...(await batch()))
      this.#fastest = Math.min(this.#fastest, ...taken.map(({ work }) => work))
      const shortest = Math.min(...taken.map(({ took = 1 }) => took))
      slowed = ({ work, took = 1 }) => Math.max(work / this.#fastest, took / shortest)
      if (taken.filter((one) => slowed(one) <= SLOWED).length >= wanted) break
    }
    const kept = new Set([...taken].sort((a, b) => slowed(a) - slowed(b)).slice(0, wanted))
    return taken.filter((one) => kept.has(one))
  }
}
