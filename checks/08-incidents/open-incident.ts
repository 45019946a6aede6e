import type { Baseline } from '../../course/incident/baseline.ts'
import type { Incident } from '../../course/incident/incident.ts'
import { IncidentContext } from '../../course/incident/incident-context.ts'
import { INCIDENT_KEY, type IncidentNote, isIncidentNote, unseal } from '../../course/incident/incident-note.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound } from '../../grading/expect-object.ts'
import { Trouble } from '../../grading/failure.ts'
import type { LabNotes } from '../../grading/lab-notes.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'

/** The incident that the cluster's notes say is open. */
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

/** The same; fails when none is open. */
export const expectIncident = (notes: LabNotes) =>
  expectFound(notedIncident(notes), {
    look: SHOW,
    expected: 'an open incident',
    actual: 'none: nothing has been broken yet',
    hint: '`make incident` breaks something.',
  })

/** The open incident, ready to be looked at. Fails when there is none. */
export function openIncident({ snapshot, live, notes }: CheckContext): OpenIncident {
  const { note, secret, incident } = expectIncident(notes)
  return {
    incident,
    note,
    baseline: secret.baseline,
    look: new IncidentContext(snapshot, live, secret.scene, incident.mode),
  }
}
