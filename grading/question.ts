import { readAnswer, sameAnswer } from './answer.ts'
import type { Check, CheckContext } from './check-context.ts'
import { fail, NotApplicable } from './failure.ts'
import type { StepDefinition } from './lab-definition.ts'

/** What is right at this moment, by the cluster itself. */
export interface Truth {
  /** Every way to say it that is right. */
  accepts: readonly string[]
  /** The read-only command that shows it. */
  look: string
}

/** Works out the truth from the snapshot; throws Failure, NotApplicable or Trouble as a check does. */
export type Question = (context: CheckContext) => Truth | Promise<Truth>

/** An answer as the lab's notes in the cluster keep it. */
export interface AnswerNote {
  text: string
  at: string
}

/** The note of what a learner answered last. */
export const answerKey = (step: string) => `answer.${step}`
/** The note of the answer that was right when it was given. */
export const answeredKey = (step: string) => `answered.${step}`

export const isAnswerNote = (value: unknown): value is AnswerNote =>
  typeof value === 'object' &&
  value !== null &&
  'text' in value &&
  typeof value.text === 'string' &&
  'at' in value &&
  typeof value.at === 'string'

/** The answer as it is written down. Throws Error with a sentence for the learner when it can't be one. */
export const answerNote = (typed: string, at = new Date()): AnswerNote => ({
  text: readAnswer(typed),
  at: at.toISOString(),
})

/** How a question is answered. */
export const answerCommand = (lab: number, step: string) => `make answer LAB=${lab} Q=${step} A='…'`

/**
 * The check of a step that asks. A right answer is about a moment: it stays right on the live cluster when that moves on. A
 * capture is never believed: what was right is worked out from it again.
 */
export function questionCheck(lab: number, { id, question = '' }: StepDefinition, ask: Question): Check {
  return async (context) => {
    const { notes, live } = context
    const wasRight = notes.read(answeredKey(id), isAnswerNote) !== undefined
    if (live && wasRight) return
    const { accepts, look } = await ask(context)
    const given = notes.read(answerKey(id), isAnswerNote)
    const text = given && usable(given)
    if (given && text !== undefined && accepts.some((accepted) => sameAnswer(text, accepted))) {
      notes.keep(answeredKey(id), given)
      return
    }
    if (wasRight) throw new NotApplicable('the cluster had moved on from its answer when this capture was taken')
    fail({
      look,
      expected: `the answer to "${question}"`,
      actual: text === undefined ? 'no answer yet' : `"${text}", which it is not on this cluster now`,
      hint: `Look with the command above, then ${answerCommand(lab, id)}`,
    })
  }
}

/** Notes can be written by other means than `make answer`; what is no answer counts as none. */
function usable({ text }: AnswerNote): string | undefined {
  try {
    return readAnswer(text)
  } catch {
    return undefined
  }
}
