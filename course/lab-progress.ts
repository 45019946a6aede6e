// How far a learner is in a lab, for every face of the guide: pure, and the same rules for what counts as held and as passed.

import type { StepOutcome } from '../grading/failure.ts'
import type { LabDefinition, StepDefinition } from '../grading/lab-definition.ts'
import { pointsWith } from '../grading/report.ts'

/** A lab as it is shown, in a learner's names. */
export interface GuideLab {
  definition: LabDefinition
  /** The Markdown that comes before the first step. */
  intro: string
  /** The Markdown that comes after the last step. */
  outro: string
  steps: GuideStep[]
}

export interface GuideStep {
  definition: StepDefinition
  /** The Markdown of the step's section: what to do, and what one saw then. */
  task: string
  seen: string
  hints: string[]
  /** The commands of the reference solution; none for a step that only looks. */
  solution: string[]
}

/** What of the progress outlives a guide: kept in the cluster, in the lab's notes. */
export interface GuideNote {
  /** Id of the step that is shown; empty before the first one. */
  at: string
  /** Milliseconds that a guide was open. */
  workedMs: number
  /** Steps whose text was shown, that held when it was, and that have passed. */
  shown: string[]
  held: string[]
  passed: string[]
}

export interface LabProgress {
  lab: GuideLab
  /** Index of the step that is shown. */
  at: number
  shown: ReadonlySet<string>
  /** Steps that held before the learner did anything in them. */
  held: ReadonlySet<string>
  /** Steps that have passed, by requests, too. */
  passed: ReadonlySet<string>
  /** What each step came to when the nodes were last looked at; empty before. */
  looks: ReadonlyMap<string, StepOutcome>
  /** The step that is shown has been looked at since it was. */
  arrived: boolean
  /** Tiers of hints that were shown, by step. */
  hints: ReadonlyMap<string, number>
}

/** Before the first step, at a step, or behind the last one. */
type Place = 'intro' | 'step' | 'end'

/** The progress at a lab's beginning, or where it was left. */
export function startProgress(
  lab: GuideLab,
  note: GuideNote | undefined,
  hints: ReadonlyMap<string, number>,
): LabProgress & { place: Place } {
  const at = lab.steps.findIndex(({ definition }) => definition.id === note?.at)
  const progress: LabProgress = {
    lab,
    at: Math.max(0, at),
    shown: new Set(note?.shown),
    held: new Set(note?.held),
    passed: new Set(note?.passed),
    looks: new Map(),
    arrived: false,
    hints,
  }
  return at === -1 ? { ...progress, place: 'intro' } : { ...showStep(progress, at), place: 'step' }
}

export const stepOf = ({ lab, at }: LabProgress): GuideStep => {
  const step = lab.steps[at]
  if (!step) throw new Error(`Lab ${lab.definition.number} has no step ${at + 1}.`)
  return step
}

export const idOf = (progress: LabProgress): string => stepOf(progress).definition.id

/** The progress with another step shown. */
export function showStep<P extends LabProgress>(progress: P, at: number): P {
  const next = { ...progress, at, arrived: false }
  return { ...next, shown: new Set([...progress.shown, idOf(next)]) }
}

/** What a step came to, as far as is known: one that was proved by requests has passed while all that can be seen is still right. */
export function lookOf({ looks, passed }: LabProgress, id: string): StepOutcome | undefined {
  const look = looks.get(id)
  return look?.unsent && passed.has(id) ? { ...look, verdict: 'passed' } : look
}

export const isDone = (look: StepOutcome | undefined): boolean =>
  look?.verdict === 'passed' || look?.verdict === 'not applicable'

/**
 * The progress after the nodes were looked at without sending packets, and the steps that passed for the first time.
 * `atStep`: a step is shown; one that holds at the first look after it was shown held already.
 */
export function looked<P extends LabProgress>(
  progress: P,
  outcomes: readonly StepOutcome[],
  atStep: boolean,
): { progress: P; fresh: string[] } {
  const now = outcomes.filter(({ verdict }) => verdict === 'passed').map(({ id }) => id)
  const fresh = now.filter((id) => !progress.passed.has(id))
  const looks = new Map(outcomes.map((outcome) => [outcome.id, outcome]))
  const next: P = { ...progress, looks, passed: new Set([...progress.passed, ...fresh]) }
  if (!atStep) return { progress: next, fresh }
  const holds = !progress.arrived && isDone(lookOf(next, idOf(next)))
  const held = holds ? new Set([...progress.held, idOf(next)]) : progress.held
  return { progress: { ...next, arrived: true, held }, fresh }
}

/** The progress after a step was checked with everything that proves it. */
export function checked<P extends LabProgress>(progress: P, outcome: StepOutcome): P {
  const looks = new Map(progress.looks).set(outcome.id, outcome)
  if (outcome.verdict !== 'passed') return { ...progress, looks }
  return { ...progress, looks, passed: new Set([...progress.passed, outcome.id]) }
}

/** Points of the steps that have passed, and of all. */
export function pointsOf({ lab, passed, looks }: LabProgress): { points: number; of: number; steps: number } {
  const { steps } = lab.definition
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)
  const done = steps.filter(({ id }) => passed.has(id))
  return {
    points: sum(done.map(({ id, points }) => pointsWith(points, looks.get(id)))),
    of: sum(steps.map(({ points }) => points)),
    steps: done.length,
  }
}
