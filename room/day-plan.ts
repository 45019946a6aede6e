// The plan of the day, and how far a class is by it. Pure.

import type { LabPlanned, LearnerTile, PlanEntry } from './protocol.ts'

const ENTRY = /^(\d{1,2})[:.](\d\d)\s+(?:lab\s+)?(\d{1,2})(?:\s+(\d{1,3})\s*(?:min(?:utes)?)?)?$/i

/**
 * Reads a plan such as `09:00 lab 1; 10:15 lab 2 90 min` on the day of `now`; the default minutes
 * are the lab's. Throws Error with the part that is not understood.
 */
export function parsePlan(text: string, labs: readonly LabPlanned[], now: number): PlanEntry[] {
  const parts = text.split(/[;\n]/).map((part) => part.trim())
  return parts
    .filter((part) => part !== '')
    .map((part) => {
      const [, hour, minute, number, minutes] = ENTRY.exec(part) ?? []
      const lab = labs.find((one) => one.number === Number(number))
      if (!lab || Number(hour) > 23 || Number(minute) > 59)
        throw new Error(
          `"${part}" is not a part of a plan: write it as in "09:00 lab 1; 10:15 lab 2 90 min".`,
        )
      const at = new Date(now)
      at.setHours(Number(hour), Number(minute), 0, 0)
      return { lab: lab.number, at: at.getTime(), minutes: Number(minutes ?? lab.minutes) }
    })
    .sort((one, other) => one.at - other.at)
}

/** How far a learner is in a lab: the minutes of the plan whose steps are done. */
function minutesDone(lab: LabPlanned, { steps }: LearnerTile, minutes: number): number {
  const of = lab.steps.reduce((sum, { points }) => sum + points, 0)
  const done = lab.steps.filter(({ id }) => {
    const { verdict } = steps[id] ?? {}
    return verdict === 'passed' || verdict === 'not applicable'
  })
  return of === 0 ? 0 : (minutes * done.reduce((sum, { points }) => sum + points, 0)) / of
}

export interface ClassPace {
  lab: number
  /** The number of the step that the plan is at, and that of the class's middle learner. */
  planned: number
  median: number
  /** Minutes that the middle learner is behind the plan; negative if ahead. */
  behind: number
  learners: number
}

/**
 * The pace of a class at a moment; undefined before the plan begins, or without learners at the
 * planned lab.
 */
export function paceOf(
  plan: readonly PlanEntry[],
  labs: readonly LabPlanned[],
  tiles: readonly LearnerTile[],
  now: number,
): ClassPace | undefined {
  const entry = plan.findLast(({ at }) => at <= now)
  const lab = labs.find(({ number }) => number === entry?.lab)
  const here = tiles.filter((tile) => tile.lab === lab?.number && !tile.left)
  if (!entry || !lab || here.length === 0) return undefined
  const passedMinutes = Math.min(entry.minutes, (now - entry.at) / 60_000)
  const done = here.map((tile) => minutesDone(lab, tile, entry.minutes)).sort((a, b) => a - b)
  const middle = done[Math.floor((done.length - 1) / 2)] ?? 0
  return {
    lab: lab.number,
    planned: stepAt(lab, passedMinutes, entry.minutes),
    median: stepAt(lab, middle, entry.minutes),
    behind: Math.round(passedMinutes - middle),
    learners: here.length,
  }
}

/** The number of the step that is worked on when `minutes` of `ofMinutes` are over. */
function stepAt(lab: LabPlanned, minutes: number, ofMinutes: number): number {
  const of = lab.steps.reduce((sum, { points }) => sum + points, 0)
  let until = 0
  for (const [index, { points }] of lab.steps.entries()) {
    until += (ofMinutes * points) / of
    if (minutes < until - 1e-6) return index + 1
  }
  return lab.steps.length
}
