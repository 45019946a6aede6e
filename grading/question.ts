// Whether the learner's answer is right on this cluster now.

import type { KubeClient } from '../cluster/kube-client.ts'
import { answerForm, readAnswer, sameAnswer } from './answer.ts'
import { type AskedText, describeChoices, normalAnswer } from './asked-text.ts'
import type { Check, CheckContext, Question, Truth } from './check-context.ts'
import { Failure, fail, NotApplicable, Trouble, Unanswered } from './failure.ts'
import type { StepDefinition } from './lab-definition.ts'
import { notesName, readConfigMap, writeNotes } from './lab-notes.ts'
import {
  type AnswerNote,
  answeredKey,
  answerKey,
  answerNote,
  costOfTries,
  gaveUpKey,
  guessableAnswers,
  learningOf,
  predictedKey,
  wrongTryKey,
} from './learning-notes.ts'

export type { Truth } from './check-context.ts'

/** A step that asks, and what its answer is worth. */
export interface AskedStep {
  lab: number
  step: Omit<StepDefinition, 'claims'>
  understanding: number
}

/**
 * The note of an answer. Throws Refusal or Error with a sentence for the learner when it is not
 * valid.
 */
export const noteOfAnswer = (asked: AskedText, typed: string, at = new Date()): AnswerNote => ({
  text: normalAnswer(asked, typed),
  at: at.toISOString(),
})

/** How a prediction or question is answered. */
export const answerCommand = (lab: number, step: string) => `make answer LAB=${lab} Q=${step} A='…'`

/**
 * The check of a step that only asks: on a live cluster a correct answer remains correct; for a
 * capture it is computed from the capture.
 */
export function questionCheck(asking: AskedStep, ask: Question): Check {
  return (context) => expectRightAnswer(asking, ask, context, fail)
}

/**
 * Passes if the last answer is right, or an earlier one was on this cluster. A wrong answer fails
 * with the misconception behind it; `unanswered` throws if there is none. Only a learner who had
 * the answer shown needs none.
 */
export async function expectRightAnswer(
  { lab, step, understanding }: AskedStep,
  ask: Question,
  context: CheckContext,
  unanswered: (detail: Failure['detail']) => never,
): Promise<void> {
  const { id, question } = step
  if (!question) return
  const { notes, live } = context
  const { answered, answer, gaveUp } = learningOf(id, notes)
  if (gaveUp) return
  const text = answer && usable(question, answer)
  if (live && answered) return tellLaterAnswer(context, question, ask, answered.text, text)
  const truth = await ask(context)
  const { accepts, inspect, because } = truth
  // Of a capture, the answer that was right on the cluster counts as well as the last one.
  const right = [answer, answered].find((candidate) => {
    const normal = candidate && usable(question, candidate)
    return normal !== undefined && isAccepted(question, normal, accepts)
  })
  if (right) {
    const { text: rightText, at } = right
    notes.keep(answeredKey(id), { text: rightText, at, ...(because !== undefined && { because }) })
    return
  }
  if (answered)
    throw new NotApplicable('the cluster had changed since the answer when this capture was taken')
  const form = formOf(question, accepts)
  const wanted = form ? form.description : describeChoices(question)
  const common = {
    inspect,
    expected: `the answer to "${question.ask}"${wanted && `, ${wanted}`}`,
    next: answerCommand(lab, id),
  }
  if (text === undefined)
    return unanswered({
      ...common,
      actual: 'no answer yet',
      hint: 'Look with the command above, and answer:',
    })
  const mistake = misconception(question, truth, text)
  const cost =
    guessableAnswers(step) === undefined ? '' : keepWrongTry({ id, understanding }, context, text)
  fail({
    ...common,
    actual: describeWrong(text, form),
    ...(mistake !== undefined && { why: mistake }),
    hint: `${cost}Look with the command above, and answer again:`,
  })
}

/** The form that the accepted answers have in common; a question with choices has none. */
const formOf = ({ choices }: AskedText, accepts: readonly string[]) =>
  choices.length > 0 ? undefined : answerForm(accepts)

/** A wrong answer, and whether it has the wrong form or the wrong value. */
function describeWrong(text: string, form: ReturnType<typeof answerForm>): string {
  if (form && !form.fits(text)) return `"${text}", which is not ${form.description}`
  return `"${text}", which is not right on this cluster now`
}

/** Counts a wrong try of a question with few possible answers. Returns what it has cost. */
function keepWrongTry(
  { id, understanding }: { id: string; understanding: number },
  { notes }: CheckContext,
  text: string,
): string {
  notes.keep(wrongTryKey(id, text), { text })
  const { wrongTries } = learningOf(id, notes)
  const lost = costOfTries(understanding, wrongTries)
  const next = costOfTries(understanding, wrongTries + 1) - lost
  const more = next > 0 ? `another wrong one costs ${next} more` : 'more tries cost nothing'
  return `Wrong answers have cost ${lost} of this step's ${understanding} points for understanding, ${more}. `
}

/** True if an answer in its normal form equals an accepted one. */
export function isAccepted(asked: AskedText, text: string, accepts: readonly string[]): boolean {
  if (asked.choices.length === 0) return accepts.some((accepted) => sameAnswer(text, accepted))
  return accepts.some(
    (accepted) => text === normalAnswer(asked, accepted === '' ? 'none' : accepted),
  )
}

/**
 * The misconception behind a wrong answer in its normal form; undefined if it is no typical one.
 */
export function misconception(
  asked: AskedText,
  { wrong = [] }: Pick<Truth, 'wrong'>,
  text: string,
): string | undefined {
  const isMeant = ({ when }: { when: string | ((answer: string) => boolean) }) =>
    typeof when === 'string' ? isAccepted(asked, text, [when]) : when(text)
  return wrong.find(isMeant)?.because
}

/** A correct answer keeps its points on the live cluster. A later wrong answer is reported. */
async function tellLaterAnswer(
  context: CheckContext,
  question: AskedText,
  ask: Question,
  right: string,
  later?: string,
): Promise<void> {
  if (later === undefined || sameAnswer(later, right)) return
  try {
    const { accepts } = await ask(context)
    if (isAccepted(question, later, accepts)) return
    const wrong = describeWrong(later, formOf(question, accepts))
    context.show([
      `Your last answer is ${wrong}. The earlier "${right}" was right and keeps its points.`,
    ])
  } catch (error) {
    // The correct answer can't be determined now.
    if (!(error instanceof Failure || error instanceof NotApplicable || error instanceof Trouble))
      throw error
  }
}

/** Notes can be written by other means than `make answer`; an invalid answer counts as none. */
export function usable(asked: AskedText, { text }: AnswerNote): string | undefined {
  try {
    return normalAnswer(asked, readAnswer(text))
  } catch {
    return undefined
  }
}

/** Stores an answer in the cluster, replacing an earlier one. Throws like `noteOfAnswer`. */
export async function keepAnswer(
  client: KubeClient,
  lab: number,
  { id, question }: Pick<StepDefinition, 'id' | 'question'>,
  typed: string,
): Promise<void> {
  if (!question) throw new Error(`Step "${id}" of lab ${lab} has no question.`)
  await writeNotes(client, lab, { [answerKey(id)]: JSON.stringify(noteOfAnswer(question, typed)) })
}

/**
 * Stores a prediction unless there is one already. Returns the one that counts. Throws like
 * `noteOfAnswer`.
 */
export async function keepPrediction(
  client: KubeClient,
  lab: number,
  { id, predict }: Pick<StepDefinition, 'id' | 'predict'>,
  typed: string,
): Promise<AnswerNote> {
  if (!predict) throw new Error(`Step "${id}" of lab ${lab} has no prediction.`)
  const first = await storedPrediction(client, lab, id)
  if (first) return first
  const note = noteOfAnswer(predict, typed)
  await writeNotes(client, lab, { [predictedKey(id)]: JSON.stringify(note) })
  return note
}

/** The prediction of a step in the cluster's notes; undefined before it was given. */
export async function storedPrediction(
  client: KubeClient,
  lab: number,
  step: string,
): Promise<AnswerNote | undefined> {
  const data = await readConfigMap(client, notesName(lab))
  try {
    return answerNote.safeParse(JSON.parse(data?.[predictedKey(step)] ?? 'null')).data
  } catch {
    return undefined
  }
}

/**
 * Stores that the learner had the answer shown, which costs the step's points for understanding.
 */
export async function keepGivenUp(client: KubeClient, lab: number, step: string): Promise<void> {
  await writeNotes(client, lab, {
    [gaveUpKey(step)]: JSON.stringify({ at: new Date().toISOString() }),
  })
}

/** Throws that an answer or prediction is missing. */
export const throwUnanswered =
  (what: 'prediction' | 'answer') =>
  (detail: Failure['detail']): never => {
    throw new Unanswered(what, detail)
  }
