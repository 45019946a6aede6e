import type { Capture } from '../../cluster/capture-folder.ts'
import { foreignRules } from '../../course/incident/baseline.ts'
import { INCIDENT_KEY, isIncidentNote, seal, unseal } from '../../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../../course/incident/shop-objects.ts'
import { notesName } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'

/**
 * A capture in which others' rules were there before the incident, too: lab 8 claims that they are as they were, so rules that only
 * came with it would be no false alarm. A capture without an incident as it is.
 */
export function asBeforeIncident(capture: Capture): Capture {
  const items = capture.objects.items.map((item) => (isNotes(item) ? resealed(item, capture) : item))
  return { ...capture, objects: { ...capture.objects, items } }
}

interface Notes {
  data: Record<string, string>
}

function resealed(notes: Notes, capture: Capture): Notes {
  const note: unknown = JSON.parse(notes.data[INCIDENT_KEY] ?? 'null')
  const secret = isIncidentNote(note) ? unseal(note.sealed) : undefined
  if (!isIncidentNote(note) || !secret) return notes
  const foreign = Object.fromEntries(new Snapshot(capture).nodes.map((node) => [node.name, foreignRules(node)]))
  const sealed = seal({ ...secret, baseline: { ...secret.baseline, foreign } })
  return { ...notes, data: { ...notes.data, [INCIDENT_KEY]: JSON.stringify({ ...note, sealed }) } }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

const isNotes = (item: unknown): item is Notes =>
  isRecord(item) &&
  item.kind === 'ConfigMap' &&
  isRecord(item.metadata) &&
  item.metadata.name === notesName(INCIDENT_LAB) &&
  isRecord(item.data)
