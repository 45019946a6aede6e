/** What an incident's score is made of. */
export interface Effort {
  seconds: number
  /** Tiers of hints that were asked for. */
  hints: number
  /** Wrong diagnoses, each counted once. */
  wrong: number
}

const FULL = 100
const LEAST = 10
const HINT = 15
/** Points that each wrong diagnosis costs. */
export const WRONG_DIAGNOSIS = 10
/** So many minutes cost nothing, each one after that a point, up to a half. */
const FREE_MINUTES = 10
const MOST_FOR_TIME = 50

/** Points of a repaired and understood incident, from 100 down to 10. */
export function scoreOf({ seconds, hints, wrong }: Effort): number {
  const late = Math.min(MOST_FOR_TIME, Math.max(0, Math.floor(seconds / 60) - FREE_MINUTES))
  return Math.max(LEAST, FULL - late - hints * HINT - wrong * WRONG_DIAGNOSIS)
}

/** The score in a sentence. */
export function describeScore(points: number, { seconds, hints, wrong }: Effort): string {
  const minutes = Math.floor(seconds / 60)
  const time = minutes > 0 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.round(seconds)} s`
  const counted = (count: number, what: string) => `${count === 0 ? 'no' : count} ${what}${count === 1 ? '' : 's'}`
  return `${points} of ${FULL} points: ${time}, ${counted(hints, 'hint')}, ${wrong === 1 ? '1 wrong diagnosis' : `${wrong === 0 ? 'no' : wrong} wrong diagnoses`}.`
}
