import * as z from 'zod'
import type { KubeClient } from '../cluster/kube-client.ts'
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

/** An answer is a name or a number; longer text is refused. */
export const MOST_CHARACTERS = 200

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/
const QUOTES = /["'`´‘’“”]/g
const FRACTION = /^(\d{1,15}) ?\/ ?(\d{1,15})$/
const DECIMAL = /^([+-]?(?:\d{1,15}(?:[.,]\d{0,15})?|[.,]\d{1,15}))( ?%)?$/
/** In 1,234 the comma is ambiguous; in 0,234 it is a decimal comma. */
const THOUSANDS = /^[+-]?[1-9]\d{0,2},\d{3}\b/
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]*:[0-9a-f:]+)$/
const CHAIN_OR_SET = /^kube-/
const HEXADECIMAL = /^0x[0-9a-f]{1,12}$/
/** One digit of a fraction, 0.3, matches many values; two digits are required. */
const FEWEST_DIGITS = 2

/** The learner's answer, trimmed: one plain line of text. Throws Error with a sentence for the learner for anything else. */
export function readAnswer(typed: string): string {
  // Cut before searching, which bounds the cost of very long text.
  const text = typed.slice(0, 4 * MOST_CHARACTERS).trim()
  if (text === '') throw new Error('An answer must not be empty: write it as in A="10.96.0.1".')
  if (text.length > MOST_CHARACTERS || typed.trim().length > MOST_CHARACTERS)
    throw new Error(`An answer has at most ${MOST_CHARACTERS} characters, this one begins with "${visible(text)}…".`)
  if (CONTROL.test(text))
    throw new Error(`An answer is one line of plain text, this one begins with "${visible(text)}…".`)
  return text
}

const visible = (text: string) => text.slice(0, 20).replace(new RegExp(CONTROL, 'g'), ' ')

/**
 * True when an answer equals an accepted one: text without regard to case, quotes and spaces around it, numbers by value (0.5
 * = 0,5 = 50% = 1/2 = 0.50000000000). A number that is not an integer may be rounded to two digits or more.
 */
export function sameAnswer(given: string, accepted: string): boolean {
  const [a, b] = [plain(given), plain(accepted)]
  if (a === b) return a !== ''
  const typed = numberIn(a)
  const truth = numberIn(b)
  if (!typed || !truth) return false
  if (closeTo(typed.value, truth.value)) return true
  const rounded = Number.isInteger(truth.value) || typed.step === undefined ? undefined : typed.step
  return (
    rounded !== undefined &&
    Math.abs(typed.value) >= rounded * 10 ** (FEWEST_DIGITS - 1) &&
    Math.abs(typed.value - truth.value) <= rounded / 2 + Number.EPSILON
  )
}

/** The forms of answers. The examples are not the answer to any question. */
const FORMS: readonly { words: string; is(text: string): boolean }[] = [
  { words: 'an address such as 192.0.2.1', is: (text) => ADDRESS.test(text) },
  { words: 'a number such as 0.2, 20% or 1/5', is: (text) => numberIn(text) !== undefined },
  { words: 'a name that begins with KUBE-', is: (text) => CHAIN_OR_SET.test(text) },
]

/** The form that an answer must have, derived from the accepted ones; undefined if any text may be correct. */
function answerForm(accepts: readonly string[]): { words: string; fits(given: string): boolean } | undefined {
  const form = FORMS.find(({ is }) => accepts.length > 0 && accepts.every((accepted) => is(plain(accepted))))
  return form && { words: form.words, fits: (given) => form.is(plain(given)) }
}

const plain = (text: string) => text.replace(QUOTES, '').trim().toLowerCase().replace(/\s+/g, ' ')

const closeTo = (a: number, b: number) => Math.abs(a - b) <= 1e-8 * Math.max(1, Math.abs(a), Math.abs(b))

interface TypedNumber {
  value: number
  /** The value of its last digit; absent for exact notation. */
  step?: number
}

function numberIn(text: string): TypedNumber | undefined {
  const [, dividend, divisor] = FRACTION.exec(text) ?? []
  if (divisor !== undefined) return Number(divisor) === 0 ? undefined : { value: Number(dividend) / Number(divisor) }
  if (HEXADECIMAL.test(text)) return { value: Number(text) }
  const [, digits, percent] = DECIMAL.exec(text) ?? []
  if (digits === undefined || THOUSANDS.test(text)) return undefined
  const whole = percent === undefined ? 1 : 100
  const decimal = digits.replace(',', '.')
  return { value: Number(decimal) / whole, step: 10 ** -(decimal.split('.')[1]?.length ?? 0) / whole }
}
