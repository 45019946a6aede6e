// A learner answers after the state of a step was captured: each capture is judged with the answers
// of the latest one.

import type { Capture } from '../../cluster/capture-folder.ts'
import { stepsOfAttempt } from '../../grading/attempt.ts'
import { notesName, notesOf } from '../../grading/lab-notes.ts'
import { isLearningKey } from '../../grading/learning-notes.ts'
import { hasPredictions } from './manifest.ts'
import type { Submission } from './read-submission.ts'

type Notes = Readonly<Record<string, string>>

/**
 * The captures of a submission by their ids, as they are judged: with the predictions, answers, and
 * evidence of the final capture, else of the latest. Of a submission from before there were
 * predictions, and of attempts, each has its own.
 */
export function capturesToJudge({ manifest, captures }: Submission): Map<string, Capture> {
  const own = new Map([...captures].map(([id, { capture }]) => [id, capture]))
  if (!hasPredictions(manifest)) return own
  const { lab, final = '' } = manifest
  const latest = [...captures.values()].toSorted((a, b) => b.takenAt - a.takenAt)[0]?.capture
  const last = notesIn(own.get(final) ?? latest, lab)
  if (!last) return own
  return new Map([...own].map(([id, capture]) => [id, withAnswers(capture, lab, last)]))
}

const notesIn = (capture: Capture | undefined, lab: number): Notes | undefined =>
  capture && notesOf(capture.objects.items, lab)?.data

function withAnswers(capture: Capture, lab: number, last: Notes): Capture {
  const own = notesIn(capture, lab) ?? {}
  // What was answered to one attempt, such as an incident, is none to the next one.
  const ofAttempts = new Set([...stepsOfAttempt(own), ...stepsOfAttempt(last)])
  const isLater = (key: string) => isLearningKey(key) && !ofAttempts.has(key.split('.')[1] ?? '')
  const ofState = Object.entries(own).filter(([key]) => !isLater(key))
  const ofLearner = Object.entries(last).filter(([key]) => isLater(key))
  const metadata = { name: notesName(lab), namespace: 'default' }
  const known = notesOf(capture.objects.items, lab)
  const map = {
    kind: 'ConfigMap',
    metadata,
    ...known,
    data: Object.fromEntries([...ofState, ...ofLearner]),
  }
  const { items } = capture.objects
  const isNotes = (item: unknown) => notesOf([item], lab) !== undefined
  const others = items.filter((item) => !isNotes(item))
  return { ...capture, objects: { ...capture.objects, items: [...others, map] } }
}
