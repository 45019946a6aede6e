// A lab's steps with the learners who passed, are at, or are stuck at each, and the sign that most
// of the stuck ones see. Pure.

import { isDoneStep, needOfHelp } from './need-of-help.ts'
import type { LabPlanned, LearnerTile } from './protocol.ts'

export interface HeatRow {
  id: string
  number: number
  title: string
  passed: number
  /** At the step, not longer than planned. */
  working: number
  /** At the step for longer than planned, or with a raised hand. */
  stuck: number
  /** Learners who are at the step or have passed it. */
  reached: number
  /** The sign that most of those see who have not passed it, with their number. */
  sign: { text: string; count: number } | undefined
}

/** The rows of a lab, for the learners who are at it. */
export function heatRows(lab: LabPlanned, tiles: readonly LearnerTile[], now: number): HeatRow[] {
  const here = tiles.filter((tile) => tile.lab === lab.number && !tile.left)
  return lab.steps.map(({ id, title }, index) => {
    const at = here.filter((tile) => tile.step === id && !isDoneStep(tile))
    const needs = at.map((tile) => needOfHelp(tile, lab, now).need)
    const stuck = needs.filter((need) => need !== 'well' && need !== 'away').length
    const passed = here.filter(({ steps }) => steps[id]?.verdict === 'passed').length
    return {
      id,
      title,
      number: index + 1,
      passed,
      stuck,
      working: at.length - stuck,
      reached: passed + at.length,
      sign: mostSeen(at.flatMap(({ steps }) => steps[id]?.sign ?? [])),
    }
  })
}

function mostSeen(signs: readonly string[]): HeatRow['sign'] {
  const counts = new Map<string, number>()
  for (const sign of signs) counts.set(sign, (counts.get(sign) ?? 0) + 1)
  const [most] = [...counts].sort(([, one], [, other]) => other - one)
  return most && { text: most[0], count: most[1] }
}

/** `flush: 14 of 22 stuck, most see: 3 stale chains on worker2`. */
export function heatLine({ id, stuck, reached, sign }: HeatRow): string {
  const most = sign ? `, most see: ${sign.text}` : ''
  return `${id}: ${stuck} of ${reached} stuck${most}`
}

/** The lab that most learners are at. */
export function labOfMost(
  labs: readonly LabPlanned[],
  tiles: readonly LearnerTile[],
): LabPlanned | undefined {
  const count = ({ number }: LabPlanned) => tiles.filter(({ lab }) => lab === number).length
  return [...labs].sort((one, other) => count(other) - count(one))[0]
}
