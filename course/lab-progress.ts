// A learner's progress in a lab, for the terminal guide and the page. Pure functions.

import * as z from 'zod'
import type { StepOutcome } from '../grading/failure.ts'
import type { LabDefinition, StepDefinition } from '../grading/lab-definition.ts'
import { pointsWith } from '../grading/report.ts'

/** The content of a lab, with the names of a learner's variant. */
export interface GuideLab {
  definition: LabDefinition
  /** The Markdown before the first step. */
  intro: string
  /** The Markdown after the last step. */
  outro: string
  /** The page to take away; empty if there is none. */
  card: string
  steps: GuideStep[]
}

export interface GuideStep {
  definition: StepDefinition
  /** The Markdown of the step's section: the task, and the explanation of its result. */
  task: string
  seen: string
  /** What later steps need; absent or empty if there is nothing. */
  onward?: string | undefined
  hints: string[]
  /** The commands of the reference solution; none for a step without changes. */
  solution: string[]
}

/** What is read after a step: its explanation, and what later steps need. */
export const explanationOf = ({ seen, onward = '' }: Pick<GuideStep, 'seen' | 'onward'>): string =>
  [seen, onward].filter((text) => text !== '').join('\n')

/** The persistent part of the progress, stored in the cluster, in the lab's notes. */
const guideNote = z.object({
  /** Id of the current step; empty before the first one. */
  at: z.string(),
  workedMs: z.number(),
  /**
   * Steps whose text was shown, steps that already passed at that time, and steps that have passed.
   */
  shown: z.array(z.string()),
  held: z.array(z.string()),
  passed: z.array(z.string()),
})
export type GuideNote = z.infer<typeof guideNote>

/**
 * Reads the note of a guide; undefined if there is none yet, or it was edited: the guide begins at
 * the first step.
 */
export function readGuideNote(text = ''): GuideNote | undefined {
  try {
    return guideNote.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

export interface LabProgress {
  lab: GuideLab
  /** Before the first step, at a step, or after the last. */
  place: 'intro' | 'step' | 'end'
  /** The step that is shown, or was shown last. */
  at: number
  shown: ReadonlySet<string>
  /** Steps that passed before they were first shown. */
  alreadyPassed: ReadonlySet<string>
  /** Steps that have passed at least once, including their requests. */
  passed: ReadonlySet<string>
  /** The outcome of each step at the latest observation of the nodes. */
  outcomes: ReadonlyMap<string, StepOutcome>
  /**
   * Whether it is decided if the current step was held: false until it is observed for the first
   * time.
   */
  arrived: boolean
  hints: ReadonlyMap<string, number>
  /** The Markdown of the page after the last step: score, time, further reading. */
  summary: string
}

/** The progress at the start of a lab, or the saved one. */
export function startProgress(
  lab: GuideLab,
  note: GuideNote | undefined,
  hints: ReadonlyMap<string, number>,
): LabProgress {
  const at = lab.steps.findIndex(({ definition }) => definition.id === note?.at)
  const progress: LabProgress = {
    lab,
    place: 'intro',
    at: Math.max(0, at),
    shown: new Set(note?.shown),
    alreadyPassed: new Set(note?.held),
    passed: new Set(note?.passed),
    outcomes: new Map(),
    arrived: false,
    hints,
    summary: '',
  }
  return at === -1 ? progress : showStep(progress, at)
}

/**
 * The progress of a lab that was opened again because its nodes could not be read for a while:
 * `begun` is that of its notes, which name the last step only, so the end stays shown. A new
 * cluster has no notes of the lab.
 */
export const reopened = ({ place, summary }: LabProgress, begun: LabProgress): LabProgress =>
  place === 'end' && begun.place === 'step' ? { ...begun, place, summary } : begun

export const shownStep = ({ lab, at }: LabProgress): GuideStep => {
  const step = lab.steps[at]
  if (!step) throw new Error(`Lab ${lab.definition.number} has no step ${at + 1}.`)
  return step
}

export const shownStepId = (progress: LabProgress): string => shownStep(progress).definition.id

/** Shows a step. One that has passed by the time it is first shown is counted as held. */
export function showStep<P extends LabProgress>(progress: P, at: number): P {
  const next: P = { ...progress, place: 'step', at }
  const id = shownStepId(next)
  if (progress.shown.has(id)) return { ...next, arrived: true }
  const outcome = outcomeOf(next, id)
  const alreadyPassed = isDone(outcome)
    ? new Set([...progress.alreadyPassed, id])
    : progress.alreadyPassed
  return {
    ...next,
    shown: new Set([...progress.shown, id]),
    alreadyPassed,
    arrived: outcome !== undefined,
  }
}

/**
 * The latest outcome of a step. A step whose requests succeeded once remains passed while its other
 * conditions hold.
 */
export function outcomeOf({ outcomes, passed }: LabProgress, id: string): StepOutcome | undefined {
  const outcome = outcomes.get(id)
  return outcome?.unsent && passed.has(id) ? { ...outcome, verdict: 'passed' } : outcome
}

export const isDone = (outcome: StepOutcome | undefined): boolean =>
  outcome?.verdict === 'passed' || outcome?.verdict === 'not applicable'

/**
 * Applies an observation of the nodes, made without sending packets. Also returns the steps that
 * passed for the first time. If nothing was observed before and the shown step passes now, it is
 * counted as held.
 */
export function applyObservation<P extends LabProgress>(
  progress: P,
  observed: readonly StepOutcome[],
): { progress: P; fresh: string[] } {
  const now = observed.filter(({ verdict }) => verdict === 'passed').map(({ id }) => id)
  const fresh = now.filter((id) => !progress.passed.has(id))
  const outcomes = new Map(observed.map((outcome) => [outcome.id, outcome]))
  const next: P = { ...progress, outcomes, passed: new Set([...progress.passed, ...fresh]) }
  if (next.place !== 'step') return { progress: next, fresh }
  const holds = !progress.arrived && isDone(outcomeOf(next, shownStepId(next)))
  const alreadyPassed = holds
    ? new Set([...progress.alreadyPassed, shownStepId(next)])
    : progress.alreadyPassed
  return { progress: { ...next, arrived: true, alreadyPassed }, fresh }
}

/** Forgets what was earned at steps whose task is another one now: the next incident was opened. */
export function forgetSteps<P extends LabProgress>(progress: P, ids: readonly string[]): P {
  const without = (set: ReadonlySet<string>) => new Set([...set].filter((id) => !ids.includes(id)))
  const outcomes = new Map([...progress.outcomes].filter(([id]) => !ids.includes(id)))
  const { shown, alreadyPassed, passed } = progress
  const inView = progress.place === 'step' ? [shownStepId(progress)] : []
  return {
    ...progress,
    shown: new Set([...without(shown), ...inView]),
    alreadyPassed: without(alreadyPassed),
    passed: without(passed),
    outcomes,
  }
}

/** Applies the outcome of a complete check of one step, including requests. */
export function applyCheck<P extends LabProgress>(progress: P, outcome: StepOutcome): P {
  const outcomes = new Map(progress.outcomes).set(outcome.id, outcome)
  if (outcome.verdict !== 'passed') return { ...progress, outcomes }
  return { ...progress, outcomes, arrived: true, passed: new Set([...progress.passed, outcome.id]) }
}

/** The points of the steps that have passed and still do, and of all steps. */
export function pointsOf(progress: LabProgress): { points: number; of: number; steps: number } {
  const { lab, passed, outcomes } = progress
  const { steps } = lab.definition
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
  const fails = (id: string) => outcomes.has(id) && !isDone(outcomeOf(progress, id))
  const done = steps.filter(({ id }) => passed.has(id) && !fails(id))
  return {
    points: sum(done.map(({ id, points }) => pointsWith(points, outcomes.get(id)))),
    of: sum(steps.map(({ points }) => points)),
    steps: done.length,
  }
}
