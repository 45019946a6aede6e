// The test of the grader for predictions, questions and evidence: a wrong answer never passes, a
// right one always.

import type { Capture } from '../../cluster/capture-folder.ts'
import type { AskedText } from '../../grading/asked-text.ts'
import type { CheckedStep, Question, Truth } from '../../grading/check-context.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { NotApplicable } from '../../grading/failure.ts'
import { contextOf, judgeRound } from '../../grading/judge.ts'
import { LabNotes, notesName, notesOf } from '../../grading/lab-notes.ts'
import {
  answeredKey,
  answerKey,
  evidenceKey,
  predictedKey,
  truthKey,
} from '../../grading/learning-notes.ts'
import { isAccepted } from '../../grading/question.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import type { GoodCapture } from './good-captures.ts'

/** One answer that was tried, and whether the step passed as it must. */
export interface AnswerTrial {
  good: GoodCapture
  step: string
  what: string
  isRight: boolean
  outcome: StepOutcome | undefined
}

type TrialNotes = Record<string, string | undefined>

const AT = '2026-01-01T00:00:00.000Z'
const note = (text: string) => JSON.stringify({ text, at: AT })
/** What no cluster has. */
const NONSENSE = 'certainly-wrong'

/**
 * Tries answers on every step that passes on a good capture and asks; a step is tried once for each
 * lab and kind of cluster.
 */
export async function tryAnswers(goods: readonly GoodCapture[]): Promise<AnswerTrial[]> {
  const trials: AnswerTrial[] = []
  const tried = new Set<string>()
  for (const good of goods)
    for (const step of good.spec.steps) {
      const name = `${good.spec.lab.number} ${good.driver} ${step.id}`
      if (!good.passing.includes(step.id) || tried.has(name)) continue
      tried.add(name)
      trials.push(...(await trialsOf(good, step)))
    }
  return trials
}

/** Whether a step did not do what it must. */
export const isMisjudged = ({ isRight, outcome }: AnswerTrial): boolean =>
  (outcome?.verdict === 'passed') !== isRight

async function trialsOf(good: GoodCapture, step: CheckedStep): Promise<AnswerTrial[]> {
  const { id, predict, question, asked, onlyAsks } = step
  const trials: AnswerTrial[] = []
  const judge = async (what: string, isRight: boolean, notes: TrialNotes) => {
    const snapshot = new Snapshot(withNotes(good, notes), good.snapshot)
    const [outcome] = await judgeRound(good.spec, snapshot, undefined, [id], good.asks)
    trials.push({ good, step: id, what, isRight, outcome })
  }
  // Where only states are judged, a question beside a state is not asked.
  const isAsked = good.asks || onlyAsks
  const truth = isAsked && question && asked.question && (await truthOn(good, asked.question))
  if (question && truth) {
    for (const text of rightAnswers(truth))
      await judge(`right answer "${text}"`, true, answering(id, text))
    const isOnlyNoted = await isTruthOnlyNoted(good, id, asked.question)
    for (const text of wrongAnswers(question, truth))
      await judge(`wrong answer "${text}"`, false, {
        ...answering(id, text),
        ...(isOnlyNoted && { [answeredKey(id)]: undefined }),
      })
    await judge('no answer', false, { [answerKey(id)]: undefined, [answeredKey(id)]: undefined })
  }
  if (!good.asks) return trials
  if (predict && !onlyAsks) {
    const [first = NONSENSE] = predict.choices
    const again = { [predictedKey(id)]: note(first), [truthKey(id)]: undefined }
    await judge('another prediction', true, again)
    await judge('no prediction', false, { [predictedKey(id)]: undefined })
  }
  if (asked.evidence) await judge('no evidence', false, { [evidenceKey(id)]: undefined })
  return trials
}

/** The answer of this cluster; undefined if the capture cannot show it. */
export async function truthOn(good: GoodCapture, ask: Question): Promise<Truth | undefined> {
  const { snapshot, spec, asks } = good
  try {
    return await ask(contextOf(snapshot, new LabNotes(spec.lab.number, snapshot), undefined, asks))
  } catch (error) {
    if (error instanceof NotApplicable) return undefined
    throw error
  }
}

/**
 * Of what only a running cluster reports, a capture has nothing but the note that the answer was
 * right.
 */
async function isTruthOnlyNoted(
  good: GoodCapture,
  id: string,
  ask: Question | undefined,
): Promise<boolean> {
  const unnoted = new Snapshot(withNotes(good, { [answeredKey(id)]: undefined }))
  return (
    ask !== undefined && (await truthOn({ ...good, snapshot: unnoted }, ask))?.accepts.length === 0
  )
}

const answering = (id: string, text: string): TrialNotes => ({
  [answerKey(id)]: note(text),
  [answeredKey(id)]: note(text),
})

/** Every accepted answer, also as a learner may type it. */
const rightAnswers = ({ accepts }: Truth): string[] =>
  accepts.flatMap((text) => [text, ` ${text.toUpperCase()} `]).filter((text) => text.trim() !== '')

/** The typical wrong answers, the other choices, and nonsense where any text can be an answer. */
function wrongAnswers(asked: AskedText, { accepts, wrong = [] }: Truth): string[] {
  const typical = wrong.flatMap(({ when }) => (typeof when === 'string' ? [when] : []))
  const others = asked.choices.length > 0 ? asked.choices : [NONSENSE]
  return [...new Set([...typical, ...others])].filter((text) => !isAccepted(asked, text, accepts))
}

/** The capture with some notes of its lab replaced, or removed where undefined. */
function withNotes({ capture, spec }: GoodCapture, notes: TrialNotes): Capture {
  const { number } = spec.lab
  const known = notesOf(capture.objects.items, number)
  const data = Object.fromEntries(
    Object.entries({ ...known?.data, ...notes }).filter(([, text]) => text !== undefined),
  )
  const map = {
    kind: 'ConfigMap',
    ...known,
    metadata: { name: notesName(number), namespace: 'default' },
    data,
  }
  const others = capture.objects.items.filter((item) => !notesOf([item], number))
  return { ...capture, objects: { ...capture.objects, items: [...others, map] } }
}

/** The answers that were misjudged, and how many were tried. */
export function answerTrialLines(trials: readonly AnswerTrial[]): string[] {
  const misjudged = trials.filter(isMisjudged)
  const count = `${trials.length} answers, predictions and proofs of own work tried, ${misjudged.length} misjudged.`
  return [
    ...misjudged.map(({ good, step, what, outcome }) => {
      const reason = outcome?.failure?.actual ?? outcome?.reason ?? ''
      return `MISJUDGED  ${good.name}, step ${step}: ${what}: ${outcome?.verdict} ${reason}`
    }),
    count,
  ]
}
