import * as z from 'zod'
import { LabNotes } from './lab-notes.ts'
import type { Snapshot } from './snapshot.ts'

/** Key of the note with the current attempt. */
export const ATTEMPT_KEY = 'attempt'

/**
 * The attempt at a task that a learner can have several times, each time another one, such as an
 * incident.
 */
const attemptNote = z.object({ id: z.string(), steps: z.array(z.string()) })
export type AttemptNote = z.infer<typeof attemptNote>

/** The steps of the attempt in a lab's notes; none if there is none, or it can't be read. */
export function stepsOfAttempt(notes: Readonly<Record<string, string>>): string[] {
  try {
    return attemptNote.parse(JSON.parse(notes[ATTEMPT_KEY] ?? 'null')).steps
  } catch {
    return []
  }
}

/**
 * The attempt to which a step of a capture belongs, read from the lab's notes; undefined if the
 * step has no attempts, or none was begun. What one attempt shows earns no points for another one.
 */
export function attemptOf(snapshot: Snapshot, lab: number, step: string): string | undefined {
  const current = new LabNotes(lab, snapshot).read(ATTEMPT_KEY, attemptNote)
  return current?.steps.includes(step) ? current.id : undefined
}
