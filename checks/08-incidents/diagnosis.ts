import { createHash } from 'node:crypto'
import type { Baseline } from '../../course/incident/baseline.ts'
import type { Incident } from '../../course/incident/incident.ts'
import { IncidentContext } from '../../course/incident/incident-context.ts'
import {
  DIAGNOSIS,
  GUESS_PREFIX,
  INCIDENT_KEY,
  type IncidentNote,
  isIncidentNote,
  unseal,
} from '../../course/incident/incident-note.ts'
import { sameAnswer } from '../../grading/answer.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import type { LabNotes } from '../../grading/lab-notes.ts'
import { answeredKey, answerKey, isAnswerNote, type Truth } from '../../grading/question.ts'
import { shortened } from '../../host/plain-text.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'

/** The open incident according to the cluster's notes. */
export interface OpenIncident {
  incident: Incident
  note: IncidentNote
  baseline: Baseline
  look: IncidentContext
}

/** The note of the open incident with its incident; undefined when none is open. Throws Trouble when it can't be read. */
function notedIncident(notes: LabNotes) {
  const note = notes.read(INCIDENT_KEY, isIncidentNote)
  if (!note) return undefined
  const secret = unseal(note.sealed)
  const incident = incidents.find(({ id }) => id === secret?.id)
  if (!secret || !incident)
    throw new Trouble('the note of the incident can no longer be read: `make reset-8`, then `make incident`')
  return { note, secret, incident }
}

export const SHOW = 'make incident SHOW=1'

/** Like notedIncident, but fails when none is open. */
const expectIncident = (notes: LabNotes) =>
  expectFound(notedIncident(notes), {
    look: SHOW,
    expected: 'an open incident',
    actual: 'none: no incident was started yet',
    hint: '`make incident` starts one.',
  })

/** The open incident, ready for its checks. Fails when there is none. */
export function openIncident({ snapshot, live, notes }: CheckContext): OpenIncident {
  const { note, secret, incident } = expectIncident(notes)
  return {
    incident,
    note,
    baseline: secret.baseline,
    look: new IncidentContext(snapshot, live, secret.environment, incident.mode),
  }
}

/** The input of an incident's score. */
export interface Effort {
  seconds: number
  /** Number of requested hint tiers. */
  hints: number
  /** Wrong diagnoses, each counted once. */
  wrong: number
}

const FULL = 100
const LEAST = 10
const HINT = 15
/** Points that each wrong diagnosis costs. */
const WRONG_DIAGNOSIS = 10
/** These minutes are free, each one after that costs a point, up to 50. */
const FREE_MINUTES = 10
const MOST_FOR_TIME = 50

/** Points of a repaired and understood incident, from 100 down to 10. */
export function scoreOf({ seconds, hints, wrong }: Effort): number {
  const late = Math.min(MOST_FOR_TIME, Math.max(0, Math.floor(seconds / 60) - FREE_MINUTES))
  return Math.max(LEAST, FULL - late - hints * HINT - wrong * WRONG_DIAGNOSIS)
}

/** The score in a sentence. */
export function describeScore(points: number, { seconds, hints, wrong }: Effort): string {
  const minutes = Math.floor(seconds / 60)
  const time = minutes > 0 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.round(seconds)} s`
  const counted = (count: number, what: string) => `${count === 0 ? 'no' : count} ${what}${count === 1 ? '' : 's'}`
  return `This incident scores ${points} of ${FULL}, beside the points of the lab: ${time}, ${counted(hints, 'hint')}, ${wrong === 1 ? '1 wrong diagnosis' : `${wrong === 0 ? 'no' : wrong} wrong diagnoses`}.`
}

/** The id of the cause. The same wrong one counts once; an id that is not on the list costs nothing. */
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

/** The note key of a wrong id, in normalised spelling. */
function guessKey(choice: string): string {
  return `${GUESS_PREFIX}${createHash('sha256').update(choice).digest('hex').slice(0, 8)}`
}
