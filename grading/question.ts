import { answerForm, readAnswer, sameAnswer } from './answer.ts'
import type { Check, CheckContext } from './check-context.ts'
import { Failure, fail, NotApplicable, Trouble } from './failure.ts'
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
    const right = notes.read(answeredKey(id), isAnswerNote)
    const given = notes.read(answerKey(id), isAnswerNote)
    const text = given && usable(given)
    if (live && right) return tellLaterAnswer(context, ask, right.text, text)
    const { accepts, look } = await ask(context)
    if (given && text !== undefined && isAccepted(text, accepts)) {
      notes.keep(answeredKey(id), given)
      return
    }
    if (right) throw new NotApplicable('the cluster had moved on from its answer when this capture was taken')
    const form = answerForm(accepts)
    fail({
      look,
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

/** A right answer keeps its points on the live cluster. Another one that was given later is said to be wrong if it is. */
async function tellLaterAnswer(context: CheckContext, ask: Question, right: string, later?: string): Promise<void> {
  if (later === undefined || sameAnswer(later, right)) return
  try {
    const { accepts } = await ask(context)
    if (isAccepted(later, accepts)) return
    const wrong = whatIsWrong(later, answerForm(accepts))
    context.show([`Your last answer is ${wrong}. The earlier "${right}" was right and keeps its points.`])
  } catch (error) {
    // What is right can't be told now.
    if (!(error instanceof Failure || error instanceof NotApplicable || error instanceof Trouble)) throw error
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
