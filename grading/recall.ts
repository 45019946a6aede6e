// Questions about earlier labs at the start of a lab: answers are checked and earn no points.

import { normalAnswer } from './asked-text.ts'
import type { RecallQuestion } from './lab-definition.ts'
import { isAccepted, misconception } from './question.ts'

/** Key of the note with the right answer to a recall question. */
export const recallKey = (id: string) => `recall.${id}`

/**
 * Whether an answer is right, and the sentences for the learner. Throws Refusal for an answer that
 * is not among the choices.
 */
export function recallLines(
  recall: RecallQuestion,
  typed: string,
): { isRight: boolean; lines: string[] } {
  const { ask, choices, accepts, wrong, because } = recall
  const asked = { ask, choices, many: false }
  const text = normalAnswer(asked, typed)
  if (isAccepted(asked, text, accepts))
    return { isRight: true, lines: [ask, `✓ right. ${because}`] }
  const mistake =
    misconception(asked, { wrong }, text) ?? 'Think again, or look it up in the earlier lab.'
  return { isRight: false, lines: [ask, `✗ "${text}" is not right. ${mistake}`] }
}
