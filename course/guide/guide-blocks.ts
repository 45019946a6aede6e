// What the terminal guide prints: texts of the lab, findings, hints, lists, and the status of a
// step. Pure functions.

import { describeChoices } from '../../grading/asked-text.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { findingParts, MARKS } from '../../grading/learner-report.ts'
import { learningLines } from '../../grading/learning-lines.ts'
import { findingOf, pointsWith } from '../../grading/report.ts'
import { shortened } from '../../host/plain-text.ts'
import {
  explanationOf,
  type GuideStep,
  isDone,
  type LabProgress,
  outcomeOf,
  pointsOf,
  shownStep,
} from '../lab-progress.ts'
import type { Part } from './terminal-text.ts'

/** Lines that are printed together: a title, a text of the lab, and labelled lines. */
export interface GuideBlock {
  title?: string
  markdown?: string
  parts?: readonly Part[]
}

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
  const next: Part = { text: `Type s again to run it, like \`${typed}\`.` }
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
  return [...lines, { text: '' }, { text: sum }]
}

/** The first step in the chain of dependencies that has not passed. */
function firstOpen(
  state: LabProgress,
  { waitsFor: [next] = [] }: StepOutcome,
): StepOutcome | undefined {
  const outcome = next === undefined ? undefined : outcomeOf(state, next)
  return outcome && (firstOpen(state, outcome) ?? outcome)
}

/** What a learner can type at a step, and elsewhere. */
const COMMANDS: readonly (readonly [string, string])[] = [
  ['Enter', 'continue'],
  ['a', 'answer'],
  ['b', 'back'],
  ['n', 'next'],
  ['h', 'hint'],
  ['c', 'check'],
  ['t', 'trace'],
  ['d', 'diff'],
  ['s', 'solution'],
  ['l', 'list'],
  ['q', 'quit'],
]

const COMMANDS_OUTSIDE_STEPS = ['Enter', 'b', 'l', 'q']

/** The commands of a place in one line. */
export function commandsLine({ place, ...state }: LabProgress): string {
  const { predict, question } = shownStep({ place, ...state }).definition
  const isAsking = predict !== undefined || question !== undefined
  const isHere = ([name]: readonly [string, string]) =>
    place === 'step' ? name !== 'a' || isAsking : COMMANDS_OUTSIDE_STEPS.includes(name)
  const commands = COMMANDS.filter(isHere).map(([name, does]) => `${name} ${does}`)
  return `Type a letter and Enter: ${commands.join(', ')}.`
}

/**
 * The Markdown of a step's task, with its condition, and what it asks if the text doesn't ask
 * there.
 */
export function stepTaskText({
  definition: { title, predict, question },
  task,
}: GuideStep): string {
  const asked = [
    ...(predict && !task.includes('**Predict.**') ? [['Predict first', predict] as const] : []),
    ...(question && !task.includes('**Question.**') ? [['Question', question] as const] : []),
  ].map(([label, text]) =>
    [`**${label}:** ${text.ask}`, describeChoices(text)].filter((part) => part !== '').join(' '),
  )
  return [task, `**Done when:** ${title}.`, ...asked].join('\n\n')
}

/**
 * What is read after a step: what the learner predicted and answered, beside what the nodes showed,
 * and the explanation.
 */
export function explanationBlock(progress: LabProgress): GuideBlock | undefined {
  const step = shownStep(progress)
  const markdown = explanationOf(step)
  const learnt = learningLines(outcomeOf(progress, step.definition.id)?.learning)
  if (markdown === '' && learnt.length === 0) return undefined
  return { ...(markdown !== '' && { markdown }), parts: learnt.map((text) => ({ text })) }
}

/**
 * What a step asks now: its prediction until one was given, then the answer that alone is missing.
 */
export function openQuestion(progress: LabProgress): 'prediction' | 'answer' | undefined {
  const { definition } = shownStep(progress)
  const outcome = outcomeOf(progress, definition.id)
  // What a step asks is about the state of those that it waits for.
  if (!outcome || isDone(outcome) || firstOpen(progress, outcome)) return undefined
  if (definition.predict && !outcome.learning?.prediction) return 'prediction'
  return outcome.unanswered
}

/** The status of the current step: a mark, and one line. */
export function stepStatusLine(state: GuideStatus): { mark: string; text: string } {
  if (state.busy !== undefined) return { mark: '…', text: `${state.busy} …` }
  if (state.trouble !== undefined)
    return { mark: '!', text: `could not read the nodes: ${state.trouble}` }
  const outcome = outcomeOf(state, shownStep(state).definition.id)
  if (!outcome) return { mark: '…', text: 'Reading the nodes …' }
  const open = openQuestion(state)
  const asks = open === undefined ? '' : ` Type your ${open} here.`
  return { mark: markOf(outcome), text: `${verdictText(state, outcome)}${asks}` }
}

function verdictText(state: GuideStatus, outcome: StepOutcome): string {
  const { definition } = shownStep(state)
  const { verdict, reason } = outcome
  if (verdict === 'passed') {
    const already = state.alreadyPassed.has(definition.id)
      ? 'already passed'
      : `passed, ${pointsWith(definition.points, outcome)} points`
    return `${already}: ${definition.title}. Press Enter to continue.`
  }
  if (verdict === 'not applicable') return `not applicable: ${reason}. Press Enter to continue.`
  if (verdict === 'could not check') return `could not check: ${reason}`
  if (outcome.unsent)
    return 'Correct so far. After the commands of the text, press Enter to send the requests that complete the check.'
  if (outcome.unanswered) return `Correct so far; your ${outcome.unanswered} is missing.`
  return openText(state, outcome)
}

/** Why a step has not passed. */
function openText(state: GuideStatus, outcome: StepOutcome): string {
  const blocking = firstOpen(state, outcome)
  if (blocking) {
    const found = blocking.failure ? `: found ${shortened(blocking.failure.actual)}` : ''
    return `waits for step ${numberOf(state, blocking.id)}, ${blocking.id}${found}`
  }
  const { failure, reason, verdict } = outcome
  if (!failure) return reason ?? verdict
  const where = failure.node === undefined ? '' : `${failure.node}: `
  return `${where}found ${shortened(failure.actual)}; expected ${shortened(failure.expected)}`
}

/** The title above a text: lab, step, points. */
export function placeTitle(state: LabProgress): string {
  const { definition, steps } = state.lab
  const { points, of } = pointsOf(state)
  const step = state.place === 'step' ? [`step ${state.at + 1} of ${steps.length}`] : []
  const lab = `Lab ${definition.number}: ${definition.title}`
  return [lab, ...step, `${points}/${of} points`].join(' · ')
}
