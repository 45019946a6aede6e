/** Something measured, and how fast the machine was meanwhile. */
export interface Paced {
  /** What a fixed piece of work took, the same in the whole run. */
  work: number
  /** What all of it took, where that is the same in each block at this size. */
  took: number
}

/** What takes so many times what it can take was slowed down by somebody else. */
const SLOWED = 1.2
/** So much is kept of what a machine has measured that was slowed down most of the time. */
const KEPT = 2 / 3

/**
 * What was measured at one size while nobody slowed the machine down, in the order in which it was; at least two thirds of all, then
 * those that suffered least. `fastest` is the shortest that the fixed work has taken in the whole run.
 */
export function steadiest<Measured extends Paced>(all: readonly Measured[], fastest: number): Measured[] {
  const shortest = Math.min(...all.map(({ took }) => took))
  const slowed = ({ work, took }: Measured) => Math.max(work / fastest, took / shortest)
  const sorted = [...all].sort((a, b) => slowed(a) - slowed(b))
  const fewest = Math.ceil(all.length * KEPT)
  const kept = new Set(sorted.filter((one, index) => index < fewest || slowed(one) <= SLOWED))
  return all.filter((one) => kept.has(one))
}
