// An exam as the notes of lab 8 keep it: in the cluster, in its captures, and so in a submission.

import * as z from 'zod'
import { LabNotes } from '../../grading/lab-notes.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { INCIDENT_LAB } from './shop.ts'

/** The note of an exam; it stays when an incident is reverted. */
export const EXAM_KEY = 'exam'

/** The most incidents that an exam can have. */
export const LONGEST_EXAM = 10

const count = z.number().int().nonnegative()
const points = count.max(100)

/** An incident that was handed in. */
export const examPart = z.object({
  id: z.string().describe('the incident'),
  points,
  of: points.describe('the most points'),
  seconds: count.describe('from the report to the repair, or until it was handed in'),
  hints: count,
  wrong: count.describe('wrong diagnoses'),
  diagnosed: z.boolean(),
  repaired: z.boolean(),
})

export type ExamPart = z.infer<typeof examPart>

const examNote = z.object({
  seed: z.string(),
  hard: z.boolean(),
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime().optional(),
  /** The ids of its incidents, encoded. */
  sealed: z.string(),
  of: count.max(LONGEST_EXAM),
  /** When the incident that is open was opened, which identifies it; absent while none is. */
  openedAt: z.string().optional(),
  parts: z.array(examPart).max(LONGEST_EXAM),
})

export type Exam = z.infer<typeof examNote>

/** The exam in the notes of lab 8; undefined if none was begun, or the note is none of an exam. */
export const examIn = (snapshot: Snapshot): Exam | undefined =>
  new LabNotes(INCIDENT_LAB, snapshot).read(EXAM_KEY, examNote)

/** The points of the incidents that were handed in, and the most that these can earn. */
export function examPoints(parts: readonly ExamPart[]): { points: number; most: number } {
  const sum = (of: (part: ExamPart) => number) => parts.reduce((total, part) => total + of(part), 0)
  return { points: sum(({ points }) => points), most: sum(({ of }) => of) }
}

/**
 * How long its incidents took, in seconds: those that were handed in, and the open one until `now`.
 * The minutes in which the machine prepares an incident do not count.
 */
export function examSeconds(
  { parts, openedAt }: { parts: readonly ExamPart[]; openedAt?: string | undefined },
  now = Date.now(),
): number {
  const open = openedAt === undefined ? 0 : Math.round((now - Date.parse(openedAt)) / 1000)
  return parts.reduce((total, { seconds }) => total + seconds, Math.max(0, open))
}
