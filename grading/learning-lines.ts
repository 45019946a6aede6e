// What a learner predicted and answered at a step, in sentences.

import { plainText } from '../host/plain-text.ts'
import { type AskedText, describeChoices } from './asked-text.ts'
import type { CheckedStep } from './check-context.ts'
import { costOfTries, guessableAnswers } from './learning-notes.ts'
import type { StepLearning } from './report-schema.ts'

/**
 * The prediction beside what the nodes showed, the explanation of the right answer, and what help
 * cost.
 */
export function learningLines(learning: StepLearning | undefined): string[] {
  if (!learning) return []
  const { prediction, answered, gaveUp } = learning
  const lines = [
    ...(prediction ? predictionLines(prediction) : []),
    ...(answered?.because === undefined ? [] : [answered.because]),
    ...(gaveUp
      ? ['The answer was shown to you, so this step earns no points for understanding.']
      : []),
  ]
  return lines.map(plainText)
}

function predictionLines({
  text,
  accepts,
  right,
  mistake,
  because,
}: NonNullable<StepLearning['prediction']>): string[] {
  if (!accepts) return [`You predicted "${text}".`]
  const [truth = ''] = accepts
  const compared = right
    ? `You predicted "${text}", and that is right.`
    : `You predicted "${text}"; it is "${truth}".`
  return [
    compared,
    ...(mistake === undefined ? [] : [mistake]),
    ...(because === undefined ? [] : [because]),
  ]
}

/** A prediction or question with its choices, as lines. */
export function askedLines(label: 'Predict' | 'Question', asked: AskedText): string[] {
  const choices = describeChoices(asked)
  return [`${label}: ${asked.ask}`, ...(choices === '' ? [] : [choices])]
}

/** What a wrong answer costs, before the first one; empty if it costs nothing. */
export function priceOfWrong(step: Pick<CheckedStep, 'question' | 'understanding'>): string {
  if (guessableAnswers(step) === undefined) return ''
  const { understanding } = step
  return `Each wrong answer costs ${costOfTries(understanding, 1)} of this step's ${understanding} points for understanding.`
}
