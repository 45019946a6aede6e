/** A measured value, and how fast the machine was meanwhile. */
export interface Paced {
  /** What a fixed piece of work took, the same in the whole run. */
  work: number
  /** What all of it took, where that is the same in each block at this size. */
  took: number
}

/** A block whose fixed work takes this multiple of the fastest one was slowed down by other processes. */
const SLOWED = 1.2
/** Share of the blocks that is kept at least, even if most of them were slowed down. */
const KEPT = 2 / 3

/**
 * The values of one size that were measured while no other load slowed the machine down, in the order in which it was; at least two
 * thirds of all, then those that suffered least. `fastest` is the shortest that the fixed work has taken in the whole run.
 */
export function steadiest<Measured extends Paced>(all: readonly Measured[], fastest: number): Measured[] {
  const shortest = Math.min(...all.map(({ took }) => took))
  const slowed = ({ work, took }: Measured) => Math.max(work / fastest, took / shortest)
  const sorted = [...all].sort((a, b) => slowed(a) - slowed(b))
  const fewest = Math.ceil(all.length * KEPT)
  const kept = new Set(sorted.filter((one, index) => index < fewest || slowed(one) <= SLOWED))
  return all.filter((one) => kept.has(one))
}
