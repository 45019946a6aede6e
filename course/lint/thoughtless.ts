// What a lab's text earns without a thought: its commands are run in order, and nothing is
// predicted, answered or given up.

import type { LabSpec } from '../../grading/check-context.ts'
import { judge } from '../../grading/judge.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { pointsWith } from '../../grading/report.ts'
import { projectRoot } from '../../host/layout.ts'
import { timeoutScale } from '../../host/wait.ts'
import { INCIDENT_LAB } from '../incident/shop.ts'
import type { LabBench } from '../lab-bench.ts'
import { resetLab } from '../lab-solution.ts'
import { type Fence, readLabText } from '../lab-text.ts'
import { FenceShell, learnerEnvironment } from './fence-shell.ts'

/** A player who thinks about nothing, and the most points that a lab may give for it. */
export type Player = 'thoughtless' | 'make-only'

export const MOST_POINTS: Readonly<Record<Player, number>> = { thoughtless: 40, 'make-only': 25 }

/**
 * Whether the limits apply to a lab. Not to that of incidents: its text goes through one whose
 * cause it gives away, and those that a learner is graded on have no text to run.
 */
export const hasUnthinkingLimits = (lab: number): boolean => lab !== INCIDENT_LAB

const RUNS: Readonly<Record<Player, (line: string) => boolean>> = {
  thoughtless: (line) => !line.startsWith('make answer '),
  'make-only': (line) => line.startsWith('make ') && !line.startsWith('make answer '),
}

/** The commands of a text that a player runs: all, or its make targets. No player answers. */
export function commandsOf(player: Player, fences: readonly Fence[]): Fence[] {
  return fences.flatMap((fence) => {
    const commands = fence.commands.split('\n').filter(RUNS[player]).join('\n')
    return commands === '' ? [] : [{ ...fence, commands }]
  })
}

/** The points of each step that passed. */
export interface UnthinkingScore {
  score: number
  points: Readonly<Record<string, number>>
}

/**
 * Plays a lab from its start as such a player and grades the open steps after each section, as the
 * guide does: a step that passed once keeps its points. Failed commands are ignored.
 */
export async function playUnthinking(
  player: Player,
  { lab, ...spec }: LabSpec,
  bench: LabBench,
): Promise<UnthinkingScore> {
  const { cluster } = bench
  await resetLab(lab, bench)
  const source = await openCluster(cluster, { keepMoments: false })
  const points: Record<string, number> = {}
  const grade = async () => {
    const only = lab.steps.map(({ id }) => id).filter((id) => points[id] === undefined)
    const { outcomes } = await judge({ lab, ...spec }, source, { only, patienceMs: 5000 })
    for (const step of lab.steps) {
      const outcome = outcomes.find(({ id }) => id === step.id)
      if (outcome?.verdict === 'passed') points[step.id] = pointsWith(step.points, outcome)
    }
  }
  const shell = new FenceShell(projectRoot, learnerEnvironment(cluster.name))
  try {
    let section: string | undefined
    for (const fence of commandsOf(player, readLabText(lab.folder).fences)) {
      if (fence.step !== section) await grade()
      section = fence.step
      await shell.type({ ...fence, timeout: fence.timeout * timeoutScale() })
    }
    await grade()
  } finally {
    shell.end()
  }
  return { score: Object.values(points).reduce((sum, one) => sum + one, 0), points }
}

/** The score, what it consists of, and the limit. */
export function unthinkingLine(player: Player, { score, points }: UnthinkingScore): string {
  const steps = Object.entries(points).map(([id, earned]) => `${id} ${earned}`)
  return `The ${player} score is ${score} of 100, at most ${MOST_POINTS[player]}: ${steps.join(', ') || 'no step passes'}.`
}
