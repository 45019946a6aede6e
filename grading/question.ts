import * as z from 'zod'
import type { KubeClient } from '../cluster/kube-client.ts'
import { answerForm, readAnswer, sameAnswer } from './answer.ts'
import type { Check, CheckContext } from './check-context.ts'
import { Failure, fail, NotApplicable, Trouble } from './failure.ts'
import type { StepDefinition } from './lab-definition.ts'
import { writeNotes } from './lab-notes.ts'

/** The correct answer for the current state of the cluster. */
export interface Truth {
  /** All accepted answers. */
  accepts: readonly string[]
  /** A read-only command to find it. */
  inspect: string
}

/** Computes the correct answer from the snapshot. Throws Failure, NotApplicable or Trouble like a check. */
export type Question = (context: CheckContext) => Truth | Promise<Truth>

/** An answer in the lab's notes in the cluster. */
export const answerNote = z.object({ text: z.string(), at: z.string() })
export type AnswerNote = z.infer<typeof answerNote>

/** Key of the note with the learner's last answer. */
export const answerKey = (step: string) => `answer.${step}`
/** Key of the note with the answer that was correct when it was given. */
export const answeredKey = (step: string) => `answered.${step}`

/** The note of an answer. Throws Error with a sentence for the learner when it is not valid. */
export const noteOfAnswer = (typed: string, at = new Date()): AnswerNote => ({
  text: readAnswer(typed),
  at: at.toISOString(),
})

/** How a question is answered. */
export const answerCommand = (lab: number, step: string) => `make answer LAB=${lab} Q=${step} A='…'`

/** The check of a question: on a live cluster a correct answer remains correct; for a capture the answer is computed from the capture. */
export function questionCheck(
  lab: number,
  { id, question = '' }: Pick<StepDefinition, 'id' | 'question'>,
  ask: Question,
): Check {
  return async (context) => {
    const { notes, live } = context
    const right = notes.read(answeredKey(id), answerNote)
    const given = notes.read(answerKey(id), answerNote)
    const text = given && usable(given)
    if (live && right) return tellLaterAnswer(context, ask, right.text, text)
    const { accepts, inspect } = await ask(context)
    if (given && text !== undefined && isAccepted(text, accepts)) {
      notes.keep(answeredKey(id), given)
      return
    }
    if (right) throw new NotApplicable('the cluster had changed since the answer when this capture was taken')
    const form = answerForm(accepts)
    fail({
      inspect,
      expected: `the answer to "${question}"${form ? `, ${form.words}` : ''}`,
      actual: text === undefined ? 'no answer yet' : whatIsWrong(text, form),
      hint: 'Look with the command above, and answer:',
      next: answerCommand(lab, id),
    })
  }
}

const isAccepted = (text: string, accepts: readonly string[]) => accepts.some((accepted) => sameAnswer(text, accepted))

const whatIsWrong = (text: string, form: ReturnType<typeof answerForm>) =>
  form && !form.fits(text)
    ? `"${text}", which is not ${form.words}`
    : `"${text}", which is not right on this cluster now`

/** A correct answer keeps its points on the live cluster. A later wrong answer is reported. */
async function tellLaterAnswer(context: CheckContext, ask: Question, right: string, later?: string): Promise<void> {
  if (later === undefined || sameAnswer(later, right)) return
  try {
    const { accepts } = await ask(context)
    if (isAccepted(later, accepts)) return
    const wrong = whatIsWrong(later, answerForm(accepts))
    context.show([`Your last answer is ${wrong}. The earlier "${right}" was right and keeps its points.`])
  } catch (error) {
    // The correct answer can't be determined now.
    if (!(error instanceof Failure || error instanceof NotApplicable || error instanceof Trouble)) throw error
  }
}

/** Notes can be written by other means than `make answer`; an invalid answer counts as none. */
function usable({ text }: AnswerNote): string | undefined {
  try {
    return readAnswer(text)
  } catch {
    return undefined
  }
}

/** Stores an answer in the cluster, replacing an earlier one. Throws Error with a sentence for the learner if the text can't be one. */
export async function keepAnswer(client: KubeClient, lab: number, step: string, typed: string): Promise<void> {
  await writeNotes(client, lab, { [answerKey(step)]: JSON.stringify(noteOfAnswer(typed)) })
}
