// Who needs help first. Pure, as the page sorts its tiles again while time passes.

import type { LabPlanned, LearnerTile } from './protocol.ts'

/** From the most urgent to the least. */
export const NEEDS = ['hand', 'stuck', 'slow', 'well', 'waiting', 'done', 'away'] as const
export type NeedOfHelp = (typeof NEEDS)[number]

/**
 * A learner is slow after the planned minutes of a step, and stuck after twice as many, but not
 * before these.
 */
const LEAST_SLOW_MINUTES = 3
const LEAST_STUCK_MINUTES = 5
/** A learner who is offline for so long has gone, or the network has. */
const AWAY_MINUTES = 10

/** The minutes that the plan has for a step: its share of the lab's, by points. */
function plannedMinutes(lab: LabPlanned, step: string): number {
  const of = lab.steps.reduce((sum, { points }) => sum + points, 0)
  const { points = 0 } = lab.steps.find(({ id }) => id === step) ?? {}
  return of === 0 ? 0 : (lab.minutes * points) / of
}

/** Minutes at the present step, until now or until the learner went offline. */
export const minutesAt = ({ since, offlineSince }: LearnerTile, now: number): number =>
  Math.max(0, ((offlineSince ?? now) - since) / 60_000)

/** Whether the learner's present step is done. */
export const isDoneStep = ({ steps, step }: LearnerTile): boolean => {
  const { verdict } = steps[step ?? ''] ?? {}
  return verdict === 'passed' || verdict === 'not applicable'
}

/**
 * The need of a learner, and how urgent it is among those with the same need: larger is more
 * urgent.
 */
export function needOfHelp(
  tile: LearnerTile,
  lab: LabPlanned | undefined,
  now: number,
): { need: NeedOfHelp; urgency: number } {
  const { hand, left, offlineSince, step } = tile
  if (left) return { need: 'away', urgency: 0 }
  if (hand !== undefined) return { need: 'hand', urgency: now - hand }
  if (offlineSince !== undefined && now - offlineSince > AWAY_MINUTES * 60_000)
    return { need: 'away', urgency: offlineSince }
  if (step === 'end' || lab?.steps.every(({ id }) => tile.steps[id]?.verdict === 'passed'))
    return { need: 'done', urgency: 0 }
  if (!lab || step === undefined || step === 'intro' || isDoneStep(tile))
    return { need: step === undefined ? 'waiting' : 'well', urgency: 0 }
  const minutes = minutesAt(tile, now)
  const planned = plannedMinutes(lab, step)
  const { verdict, hints = 0 } = tile.steps[step] ?? {}
  // Hints and a check that is not possible bring a learner to the front of those who wait as long.
  const urgency =
    minutes / Math.max(1, planned) + hints / 2 + (verdict === 'could not check' ? 2 : 0)
  if (minutes >= Math.max(LEAST_STUCK_MINUTES, 2 * planned)) return { need: 'stuck', urgency }
  if (minutes >= Math.max(LEAST_SLOW_MINUTES, planned)) return { need: 'slow', urgency }
  return { need: 'well', urgency }
}

/** Tiles with their needs, those who need help first; of equal ones, by name. */
export function byNeed(
  tiles: readonly LearnerTile[],
  labs: readonly LabPlanned[],
  now: number,
): { tile: LearnerTile; need: NeedOfHelp }[] {
  const needy = tiles.map((tile) => {
    const lab = labs.find(({ number }) => number === tile.lab)
    return { tile, ...needOfHelp(tile, lab, now) }
  })
  return needy.sort(
    (one, other) =>
      NEEDS.indexOf(one.need) - NEEDS.indexOf(other.need) ||
      other.urgency - one.urgency ||
      one.tile.name.localeCompare(other.tile.name, 'en'),
  )
}
