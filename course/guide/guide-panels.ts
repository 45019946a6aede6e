// What the terminal guide shows beside the text of a step: its status line, and the contents of panels. Pure functions.

import type { StepOutcome } from '../../grading/failure.ts'
import { findingParts, MARKS } from '../../grading/learner-report.ts'
import { findingOf, pointsWith } from '../../grading/report.ts'
import { shortened } from '../../host/plain-text.ts'
import { type LabProgress, outcomeOf, pointsOf, shownStep } from '../lab-progress.ts'
import type { Part } from './terminal-text.ts'

/** The part of the guide's state that its status line shows. */
export interface GuideStatus extends LabProgress {
  /** The operation in progress. */
  busy?: string | undefined
  /** Why the nodes could not be read. */
  trouble?: string | undefined
}

/** The number of a step for people. */
export const numberOf = ({ lab }: LabProgress, id: string) =>
  lab.steps.findIndex(({ definition }) => definition.id === id) + 1

/** The finding of a step that has not passed. */
export function failureParts(
  { lab: { definition } }: LabProgress,
  { id, verdict, reason, failure }: StepOutcome,
): Part[] {
  const step = definition.steps.find((one) => one.id === id)
  if (!step || !failure) return [{ text: reason ?? verdict }]
  return findingParts(definition.number, step.id, findingOf(step, failure))
}

/** The commands of the reference solution. */
export function solutionParts(state: LabProgress): Part[] {
  const { definition, solution } = shownStep(state)
  const commands = solution.map((text): Part => ({ label: '', text, whole: true }))
  const none: Part = { text: 'This step changes nothing: run the commands of its text.' }
  const typed = `make solve-${state.lab.definition.number} STEP=${definition.id}`
  const next: Part = { text: `Press s again to run it, like \`${typed}\`, or Enter to return.` }
  return [...(solution.length > 0 ? commands : [none]), { text: '' }, next]
}

const markOf = (outcome: StepOutcome | undefined): string =>
  outcome ? MARKS[outcome.verdict] : ' '

/** The steps, each with its mark. */
export function listParts(state: LabProgress): Part[] {
  const { points, of, steps } = pointsOf(state)
  const lines = state.lab.definition.steps.map(({ id, title, points: worth }, index): Part => {
    const mark = state.passed.has(id) ? '✓' : markOf(outcomeOf(state, id)).replace(/[✗–]/, ' ')
    const here = index === state.at ? '>' : ' '
    return { label: `${here}${mark} ${String(index + 1).padStart(2)}`, text: `${title} (${worth})` }
  })
  const sum = `${steps} of ${lines.length} steps have passed, ${points}/${of} points.`
  return [...lines, { text: '' }, { text: `${sum} Type a number and Enter to go to a step.` }]
}

/** The first step in the chain of dependencies that has not passed. */
function firstOpen(
  state: LabProgress,
  { waitsFor: [next] = [] }: StepOutcome,
): StepOutcome | undefined {
  const outcome = next === undefined ? undefined : outcomeOf(state, next)
  return outcome && (firstOpen(state, outcome) ?? outcome)
}

/** The status line of the current step. */
export function stepStatusLine(state: GuideStatus): { mark: string; text: string } {
  const { definition } = shownStep(state)
  const outcome = outcomeOf(state, definition.id)
  if (state.busy !== undefined) return { mark: '…', text: `${state.busy} …` }
  if (state.trouble !== undefined)
    return { mark: '!', text: `could not read the nodes: ${state.trouble}` }
  if (!outcome) return { mark: '…', text: 'Reading the nodes …' }
  const mark = markOf(outcome)
  if (outcome.verdict === 'passed') {
    const already = state.held.has(definition.id)
      ? 'already passed'
      : `passed, ${pointsWith(definition.points, outcome)} points`
    return { mark, text: `${already}: ${definition.title}. Press Enter to continue.` }
  }
  if (outcome.verdict === 'not applicable')
    return { mark, text: `not applicable: ${outcome.reason}. Press Enter to continue.` }
  if (outcome.verdict === 'could not check')
    return { mark, text: `could not check: ${outcome.reason}` }
  if (outcome.unsent)
    return {
      mark,
      text: 'Correct so far. After the commands of the text, press Enter to send the requests that complete the check.',
    }
  const blocking = firstOpen(state, outcome)
  if (blocking) {
    const found = blocking.failure ? `: found ${shortened(blocking.failure.actual)}` : ''
    return { mark, text: `waits for step ${numberOf(state, blocking.id)}, ${blocking.id}${found}` }
  }
  const { failure, reason } = outcome
  if (!failure) return { mark, text: reason ?? outcome.verdict }
  const where = failure.node === undefined ? '' : `${failure.node}: `
  return {
    mark,
    text: `${where}found ${shortened(failure.actual)}; expected ${shortened(failure.expected)}`,
  }
}
