// What the lab's notes keep of a step's prediction, answers and evidence, and what they cost.

import { createHash } from 'node:crypto'
import * as z from 'zod'
import { countAnswers } from './asked-text.ts'
import type { StepDefinition } from './lab-definition.ts'
import type { LabNotes } from './lab-notes.ts'
import type { StepLearning } from './report-schema.ts'

/** An answer in the lab's notes in the cluster. */
export const answerNote = z.object({ text: z.string(), at: z.string() })
export type AnswerNote = z.infer<typeof answerNote>

/** An answer that was right, with the explanation. */
const rightAnswerNote = answerNote.extend({ because: z.string().optional() })

/** What the nodes showed for a prediction. */
const truthNote = z.object({
  accepts: z.array(z.string()),
  right: z.boolean(),
  /** The misconception behind the prediction, where it is a known one. */
  mistake: z.string().optional(),
  because: z.string().optional(),
})
const gaveUpNote = z.object({ at: z.string() })

/** Key of the note with the learner's last answer. */
export const answerKey = (step: string) => `answer.${step}`
/** Key of the note with the answer that was correct when it was given. */
export const answeredKey = (step: string) => `answered.${step}`
/** Key of the note with the first prediction. */
export const predictedKey = (step: string) => `predicted.${step}`
/** Key of the note with what the nodes showed for the prediction. */
export const truthKey = (step: string) => `truth.${step}`
/** Key of the note that the learner had the answer shown. */
export const gaveUpKey = (step: string) => `gave-up.${step}`
/** Key of the note with what proves the learner's own work. */
export const evidenceKey = (step: string) => `evidence.${step}`
const wrongTryPrefix = (step: string) => `wrong-try.${step}.`
/** Key of the note of one wrong answer: the same answer again counts once. */
export const wrongTryKey = (step: string, text: string) =>
  `${wrongTryPrefix(step)}${createHash('sha256').update(text.toLowerCase()).digest('hex').slice(0, 8)}`

/**
 * True for the key of a note about what a learner predicted, answered and did, not about the
 * cluster's state.
 */
export const isLearningKey = (key: string): boolean =>
  /^(?:answer|answered|predicted|truth|gave-up|evidence|wrong-try)\./.test(key)

/** What the notes say about a step's prediction and question. */
export function learningOf(step: string, notes: LabNotes): StepLearning {
  const predicted = notes.read(predictedKey(step), answerNote)
  const answer = notes.read(answerKey(step), answerNote)
  const answered = notes.read(answeredKey(step), rightAnswerNote)
  return {
    ...(predicted && { prediction: { ...predicted, ...notes.read(truthKey(step), truthNote) } }),
    ...(answer && { answer }),
    ...(answered && { answered }),
    wrongTries: notes.count(wrongTryPrefix(step)),
    gaveUp: notes.read(gaveUpKey(step), gaveUpNote) !== undefined,
  }
}

/**
 * The points of a step that its prediction and question earn: all of a step that only asks, else
 * 70% if not written.
 */
export function understandingPoints(
  { points, understanding, predict, question }: Omit<StepDefinition, 'claims'>,
  onlyAsks: boolean,
): number {
  if (!predict && !question) return 0
  return understanding ?? (onlyAsks ? points : Math.ceil(points * 0.7))
}

/** In a set of more answers, guessing does not pay. */
const MOST_GUESSABLE = 6
const TRIES_PER_STEP = 3

/**
 * The number of answers of a step's question, if it is so small that each wrong try costs a third
 * of the understanding points.
 */
export function guessableAnswers({
  question,
}: Pick<StepDefinition, 'question'>): number | undefined {
  const possible = question && countAnswers(question)
  return possible !== undefined && possible <= MOST_GUESSABLE ? possible : undefined
}

/** The understanding points that are lost after a number of wrong tries. */
export const costOfTries = (understanding: number, tries: number): number =>
  Math.round((understanding * Math.min(tries, TRIES_PER_STEP)) / TRIES_PER_STEP)

/**
 * The points that a passed step loses: all for understanding if its answer was shown, a third for
 * each wrong try.
 */
export const learningCost = (
  understanding: number,
  { gaveUp, wrongTries }: Pick<StepLearning, 'gaveUp' | 'wrongTries'>,
): number => (gaveUp ? understanding : costOfTries(understanding, wrongTries))
