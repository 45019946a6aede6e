import { asApiObjects } from '../../grading/api-object.ts'
import { NOTES_NAMESPACE, notesName } from '../../grading/lab-notes.ts'
import { isAnswerNote } from '../../grading/question.ts'
import type { Manifest } from './manifest.ts'

const ANSWER = /^answer\.(.+)$/
const MOST = 100

/** The learner's answers to a lab's questions, as the lab's notes in the cluster keep them; for reading by eye. */
export function readAnswers(items: readonly unknown[], lab: number): Manifest['answers'] {
  const notes = asApiObjects(items).find(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' && metadata.namespace === NOTES_NAMESPACE && metadata.name === notesName(lab),
  )
  return Object.entries(notes?.data ?? {})
    .flatMap(([key, answer]) => {
      const question = ANSWER.exec(key)?.[1]
      return question === undefined ? [] : [{ question: question.slice(0, 200), answer: textOf(answer).slice(0, 2000) }]
    })
    .slice(0, MOST)
}

/** The text of an answer's note; a note of another shape is returned unchanged. */
function textOf(note: string): string {
  try {
    const value: unknown = JSON.parse(note.slice(0, 4000))
    return isAnswerNote(value) ? value.text : note
  } catch {
    return note
  }
}
