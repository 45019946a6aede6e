// The text of an answer: what can be one, and whether it equals an accepted one.

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

/**
 * The learner's answer, trimmed: one plain line of text. Throws Error with a sentence for the
 * learner for anything else.
 */
export function readAnswer(typed: string): string {
  // Cut before searching, which bounds the cost of very long text.
  const text = typed.slice(0, 4 * MOST_CHARACTERS).trim()
  if (text === '') throw new Error('An answer must not be empty: write it as in A="10.96.0.1".')
  if (text.length > MOST_CHARACTERS || typed.trim().length > MOST_CHARACTERS)
    throw new Error(
      `An answer has at most ${MOST_CHARACTERS} characters, this one begins with "${visible(text)}…".`,
    )
  if (CONTROL.test(text))
    throw new Error(
      `An answer is one line of plain text, this one begins with "${visible(text)}…".`,
    )
  return text
}

const visible = (text: string) => text.slice(0, 20).replace(new RegExp(CONTROL, 'g'), ' ')

/**
 * True when an answer equals an accepted one: text without regard to case, quotes and spaces around
 * it, numbers by value (0.5 = 0,5 = 50% = 1/2 = 0.50000000000). A number that is not an integer may
 * be rounded to two digits or more.
 */
export function sameAnswer(answer: string, accepted: string): boolean {
  const [a, b] = [plain(answer), plain(accepted)]
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

const isNumber = (text: string) => numberIn(text) !== undefined

/**
 * The forms of answers, told by the accepted ones (`is`), and what is taken as one. The examples
 * are not the answer to any question.
 */
const FORMS: readonly {
  description: string
  is(text: string): boolean
  fits?(text: string): boolean
}[] = [
  { description: 'an address such as 192.0.2.1', is: (text) => ADDRESS.test(text) },
  // A fraction is a wrong answer then, not another form.
  { description: 'a whole number', is: (text) => /^\d+$/.test(text), fits: isNumber },
  { description: 'a number such as 0.2, 20% or 1/5', is: isNumber },
  { description: 'a name that begins with KUBE-', is: (text) => CHAIN_OR_SET.test(text) },
]

/**
 * The form that an answer must have, derived from the accepted ones; undefined if any text may be
 * correct.
 */
export function answerForm(
  accepts: readonly string[],
): { description: string; fits(answer: string): boolean } | undefined {
  const form = FORMS.find(
    ({ is }) => accepts.length > 0 && accepts.every((accepted) => is(plain(accepted))),
  )
  if (!form) return undefined
  const { description, is, fits = is } = form
  return { description, fits: (text) => fits(plain(text)) }
}

const plain = (text: string) => text.replace(QUOTES, '').trim().toLowerCase().replace(/\s+/g, ' ')

const closeTo = (a: number, b: number) =>
  Math.abs(a - b) <= 1e-8 * Math.max(1, Math.abs(a), Math.abs(b))

interface TypedNumber {
  value: number
  /** The value of its last digit; absent for exact notation. */
  step?: number
}

function numberIn(text: string): TypedNumber | undefined {
  const [, dividend, divisor] = FRACTION.exec(text) ?? []
  if (divisor !== undefined)
    return Number(divisor) === 0 ? undefined : { value: Number(dividend) / Number(divisor) }
  if (HEXADECIMAL.test(text)) return { value: Number(text) }
  const [, digits, percent] = DECIMAL.exec(text) ?? []
  if (digits === undefined || THOUSANDS.test(text)) return undefined
  const whole = percent === undefined ? 1 : 100
  const decimal = digits.replace(',', '.')
  return {
    value: Number(decimal) / whole,
    step: 10 ** -(decimal.split('.')[1]?.length ?? 0) / whole,
  }
}
