// What a lab asks its learner, as lab.yaml states it, and which answers are possible.

import * as z from 'zod'
import { Refusal } from '../host/main.ts'
import { shortened } from '../host/plain-text.ts'
import { readAnswer } from './answer.ts'

/** A prediction or a question of a step. */
export interface AskedText {
  ask: string
  /** The closed set of answers; empty if any text can be one. */
  choices: readonly string[]
  /** The answer is a subset of the choices: names separated by commas, or `none`. */
  many: boolean
}

const sentence = z.string().trim().min(10).endsWith('?')
/** Numbers may be written without quotes. */
const choice = z.union([z.string().trim().min(1), z.number().transform(String)])
const withChoices = z
  .strictObject({
    ask: sentence,
    choices: z.array(choice).min(2).optional(),
    many: z.boolean().optional(),
  })
  .refine(({ choices, many }) => !many || choices !== undefined, '"many: true" needs choices')

/** A sentence that ends in "?", or `{ ask, choices, many }`. */
export const askedTextSchema = z.union([sentence, withChoices]).transform((written): AskedText => {
  if (typeof written === 'string') return { ask: written, choices: [], many: false }
  return { ask: written.ask, choices: written.choices ?? [], many: written.many ?? false }
})

/** The empty subset of the choices. */
const NONE = 'none'

/** The number of possible answers; undefined if any text can be one. */
export function countAnswers({ choices, many }: AskedText): number | undefined {
  if (choices.length === 0) return undefined
  return many ? 2 ** choices.length : choices.length
}

/**
 * How the choices are listed beside the question: "`a` · `b`, any number of them or `none`"; empty
 * without choices.
 */
export function describeChoices({ choices, many }: AskedText): string {
  if (choices.length === 0) return ''
  const listed = choices.map((name) => `\`${name}\``).join(' · ')
  return many ? `${listed} (any number of them, separated by commas, or \`${NONE}\`)` : listed
}

/**
 * An answer in the form in which it is kept and compared: trimmed; of a closed set as the set
 * writes it, several names in the order of the set, joined by ", ". Throws Refusal for an answer
 * that is not in the set, Error for text that can't be an answer.
 */
export function normalAnswer(asked: AskedText, typed: string): string {
  const text = readAnswer(typed)
  if (asked.choices.length === 0) return text
  const find = (name: string) =>
    asked.choices.find((known) => known.toLowerCase() === name.toLowerCase())
  const refuse = (name: string): never => {
    const sentence = `"${shortened(name, 60)}" is not one of the possible answers, which are ${describeChoices(asked)}.`
    throw new Refusal(`${sentence} Nothing was kept, and it costs nothing.`)
  }
  if (!asked.many) return find(text.replace(/^["'`]|["'`]$/g, '')) ?? refuse(text)
  if (text.toLowerCase() === NONE) return NONE
  const terms = find(text) ? [text] : text.split(/[\s,;]+/).filter(Boolean)
  const chosen = new Set(terms.map((name) => find(name) ?? refuse(name)))
  return asked.choices.filter((name) => chosen.has(name)).join(', ')
}
