import { createHash } from 'node:crypto'
import { GUESS_PREFIX } from '../../course/incident/incident-note.ts'
import { readAnswer, sameAnswer } from '../../grading/answer.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import type { Notebook } from '../../grading/notebook.ts'
import { answeredKey, answerKey, isAnswerNote, type Truth } from '../../grading/question.ts'
import { notedIncident } from './open-incident.ts'

export const DIAGNOSIS = 'diagnosis'

/** The word of the cause. A wrong one is counted, whoever types it how often. */
export function causeByName({ notes }: CheckContext): Truth {
  const found = notedIncident(notes)
  if (!found)
    fail({
      look: 'make incident SHOW=1',
      expected: 'an open incident, and the word of its cause',
      actual: 'none: nothing has been broken yet',
      hint: '`make incident` breaks something.',
    })
  const { id } = found.incident
  const given = notes.read(answerKey(DIAGNOSIS), isAnswerNote)
  if (given && !sameAnswer(given.text, id)) notes.keep(guessKey(given.text), true)
  return { accepts: [id], look: 'make incident SHOW=1' }
}

/** True when the cause was named. */
export const wasDiagnosed = (notes: Notebook): boolean => notes.read(answeredKey(DIAGNOSIS), isAnswerNote) !== undefined

function guessKey(text: string): string {
  const plain = readAnswer(text).toLowerCase()
  return `${GUESS_PREFIX}${createHash('sha256').update(plain).digest('hex').slice(0, 8)}`
}
