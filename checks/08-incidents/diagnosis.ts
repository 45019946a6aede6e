import { createHash } from 'node:crypto'
import type { Baseline } from '../../course/incident/baseline.ts'
import { type Incident, loadIncidents } from '../../course/incident/incident.ts'
import { IncidentContext } from '../../course/incident/incident-context.ts'
import {
  askingStep,
  COST,
  DIAGNOSIS,
  GUESS_PREFIX,
  INCIDENT_KEY,
  type IncidentNote,
  incidentCommand,
  incidentNote,
} from '../../course/incident/incident-note.ts'
import {
  causesNamed,
  describeMissing,
  FACTS_ASKED,
  loadKeyFacts,
  type NamedCause,
} from '../../course/incident/key-facts.ts'
import { openIncident } from '../../course/incident/revert-incident.ts'
import { sameAnswer } from '../../grading/answer.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound, fail, Trouble } from '../../grading/failure.ts'
import type { LabNotes } from '../../grading/lab-notes.ts'
import { answeredKey, answerKey, answerNote } from '../../grading/learning-notes.ts'
import type { Truth } from '../../grading/question.ts'
import { shortened } from '../../host/plain-text.ts'

/** The open incident according to the cluster's notes. */
export interface OpenIncident {
  incident: Incident
  note: IncidentNote
  baseline: Baseline
  /** For its checks: the snapshot, and real requests. */
  means: IncidentContext
}

/**
 * The open incident, ready for its checks. Fails when none is open; throws Trouble when its note
 * can't be read.
 */
export async function expectOpenIncident({
  snapshot,
  live,
  notes,
}: CheckContext): Promise<OpenIncident> {
  const found = await openIncident(notes)
  const { lab } = notes
  if (!found && notes.read(INCIDENT_KEY, incidentNote))
    throw new Trouble(
      `the note of the incident can no longer be read: \`make reset-${lab}\`, then \`${incidentCommand(lab)}\``,
    )
  const { note, secret, incident } = expectFound(found, {
    inspect: showCommand(notes),
    expected: 'an open incident',
    actual: 'none: no incident was started yet',
    next: incidentCommand(lab),
  })
  const means = new IncidentContext(snapshot, live, secret.environment, incident.mode)
  return { incident, note, baseline: secret.baseline, means }
}

/** The command that shows the report and the possible causes again. */
export const showCommand = ({ lab }: LabNotes): string => incidentCommand(lab, 'SHOW=1')

/** The hints and wrong diagnoses that the learner needed. A wrong diagnosis counts once. */
export function incidentEffort({ notes, snapshot }: CheckContext): {
  hints: number
  wrong: number
} {
  const written = snapshot.find('ConfigMap', 'default', 'lab-8')?.data ?? {}
  const wrong = Object.keys(written).filter((key) => key.startsWith(GUESS_PREFIX)).length
  return { hints: notes.read(INCIDENT_KEY, incidentNote)?.hints ?? 0, wrong }
}

/** The points deducted from the diagnosis step for hints and wrong diagnoses. */
export function costOfDiagnosis(context: CheckContext): number {
  const { hints, wrong } = incidentEffort(context)
  return (hints + wrong) * COST
}

/**
 * The cause: its id, or in hard mode a sentence with its key facts. Each wrong cause counts once;
 * an id that is not on the list, and a sentence that names no cause or several, have no cost.
 */
export async function causeByName(context: CheckContext): Promise<Truth> {
  const { notes } = context
  const open = await expectOpenIncident(context)
  if (open.note.hard) return causeInSentence(context, open)
  const {
    incident: { id },
    note: { choices },
  } = open
  const inspect = showCommand(notes)
  const answer = notes.read(answerKey(DIAGNOSIS), answerNote)
  if (!answer || sameAnswer(answer.text, id)) return { accepts: [id], inspect }
  const typed = shortened(answer.text, 60)
  const wrong = expectFound(
    choices.find((choice) => sameAnswer(answer.text, choice)),
    {
      inspect,
      expected: `one of ${choices.join(', ')}`,
      actual: `"${typed}", which is not on the list; it costs nothing`,
      hint: 'Answer with an id of the list:',
      next: `make answer Q=${DIAGNOSIS} A=…`,
    },
  )
  return failWrong(context, { id: wrong, typed: wrong, expected: 'the id of the cause' })
}

/** Hard mode: the sentence names the cause, on its node, and no other one. */
async function causeInSentence(
  { notes, nodes }: CheckContext,
  { incident: { id }, means: { environment } }: OpenIncident,
): Promise<Truth> {
  const inspect = showCommand(notes)
  const table = await loadKeyFacts()
  const facts = table[id]
  if (!facts) throw new Trouble(`the incident "${id}" has no key facts`)
  const answer = notes.read(answerKey(DIAGNOSIS), answerNote)
  if (!answer) return { accepts: [facts.example(environment)], inspect }
  const names = nodes.map(({ name }) => name)
  const [named, another] = causesNamed(answer.text, table, names)
  const expected = `a sentence that names one cause. ${FACTS_ASKED}`
  if (!named || another)
    fail({
      inspect,
      expected,
      actual: named
        ? 'a sentence that can mean several causes; it costs nothing'
        : `a sentence that names no cause, because ${describeMissing(answer.text, table, names)}; it costs nothing`,
      hint: 'Name one cause, as precisely as in a report to colleagues:',
      next: `make answer Q=${DIAGNOSIS} A='…'`,
    })
  const place = facts.node?.(environment)
  if (named.id === id && named.node === place) return { accepts: [answer.text], inspect }
  return failWrong({ notes }, { ...named, typed: shortened(answer.text, 80), expected })
}

/** Counts a wrong cause once, and tells what it would show. */
async function failWrong(
  { notes }: Pick<CheckContext, 'notes'>,
  { id, node, typed, expected }: NamedCause & { typed: string; expected: string },
): Promise<never> {
  notes.keep(guessKey(node === undefined ? id : `${id} on ${node}`), true)
  const named = (await loadIncidents()).find((incident) => incident.id === id)
  fail({
    inspect: showCommand(notes),
    ...(named && { why: named.sign }),
    expected,
    actual: `"${typed}", which is not the cause: each wrong diagnosis costs ${COST} of the step's points`,
    hint: 'Inspect the nodes again before you name another cause; `make incident HINT=1` gives a hint.',
  })
}

/** True if the correct cause was submitted. */
export const wasDiagnosed = (notes: LabNotes): boolean =>
  notes.read(answeredKey(askingStep(notes.lab)), answerNote) !== undefined

/** The note key of a wrong id, in normalised spelling. */
function guessKey(choice: string): string {
  return `${GUESS_PREFIX}${createHash('sha256').update(choice).digest('hex').slice(0, 8)}`
}
