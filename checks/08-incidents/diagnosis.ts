import { createHash } from 'node:crypto'
import { DIAGNOSIS, GUESS_PREFIX } from '../../course/incident/incident-note.ts'
import { sameAnswer } from '../../grading/answer.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { fail } from '../../grading/failure.ts'
import type { LabNotes } from '../../grading/lab-notes.ts'
import { answeredKey, answerKey, isAnswerNote, type Truth } from '../../grading/question.ts'
import { shortened } from '../../host/plain-text.ts'
import { expectIncident, SHOW } from './open-incident.ts'
import { WRONG_DIAGNOSIS } from './score.ts'

/** The id of the cause. A wrong one is counted once, however often it is typed; what the list does not have is no diagnosis and costs nothing. */
export function causeByName({ notes }: CheckContext): Truth {
  const { incident, note } = expectIncident(notes)
  const { id } = incident
  const { choices } = note
  const look = SHOW
  const given = notes.read(answerKey(DIAGNOSIS), isAnswerNote)
  if (!given || sameAnswer(given.text, id)) return { accepts: [id], look }
  const typed = shortened(given.text, 60)
  const wrong = expectFound(
    choices.find((choice) => sameAnswer(given.text, choice)),
    {
      look,
      expected: `one of ${choices.join(', ')}`,
      actual: `"${typed}", which is not on the list; it costs nothing`,
      hint: `make answer Q=${DIAGNOSIS} A=… with an id of the list`,
    },
  )
  notes.keep(guessKey(wrong), true)
  fail({
    look,
    expected: 'the id of the cause',
    actual: `"${wrong}", which is not the cause: a wrong diagnosis costs ${WRONG_DIAGNOSIS} of the incident's points`,
    hint: 'Look again before you name another one; `make incident HINT=1` gives a hint.',
  })
}

/** True when the cause was named. */
export const wasDiagnosed = (notes: LabNotes): boolean => notes.read(answeredKey(DIAGNOSIS), isAnswerNote) !== undefined

/** The same id as it was noted before, in one spelling. */
function guessKey(choice: string): string {
  return `${GUESS_PREFIX}${createHash('sha256').update(choice).digest('hex').slice(0, 8)}`
}
