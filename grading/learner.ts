import { createHash } from 'node:crypto'

/** What can name a learner: it becomes part of a file's name and stands in reports. */
export const LEARNER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/** The name as given. Throws with the rule when it is none. */
export function learnerName(text: string | undefined): string {
  if (text !== undefined && LEARNER_NAME.test(text)) return text
  throw new Error(
    `"${text ?? ''}" can't name a learner: use letters, digits, dots, dashes, at most 63, as in \`make submit LEARNER=alice LAB=2\`.`,
  )
}

/** The seed that a learner's own variant of the labs grows from: the name alone decides it, in any spelling of its case. */
export function seedOf(learner: string): string {
  return createHash('sha256').update(`kube-service-labs seed ${learner.toLowerCase()}`).digest('hex').slice(0, 16)
}
