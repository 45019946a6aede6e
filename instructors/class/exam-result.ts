// The exam of lab 8 in a submission or on a running cluster, and what a class missed in it.

import type { Capture } from '../../cluster/capture-folder.ts'
import { type Exam, examIn, examPoints, examSeconds } from '../../course/incident/exam-note.ts'
import { describePart } from '../../course/incident/exam-report.ts'
import { describeSeconds } from '../../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import { groupBy } from '../../dataplane/collections.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { inOneLine } from '../../host/plain-text.ts'
import type { Submission } from '../submission/read-submission.ts'
import type { ExamResult, Graded } from './result.ts'

/** The exam in the notes of a capture; undefined for another lab, or if none was begun there. */
export function examInCapture(lab: number, capture: Capture): ExamResult | undefined {
  const exam = lab === INCIDENT_LAB ? examIn(new Snapshot(capture)) : undefined
  return exam && resultOf(exam)
}

/** The exam of a submission: that of its final capture, else of the latest that has one. */
export function examInSubmission({ manifest, captures }: Submission): ExamResult | undefined {
  const { lab, final } = manifest
  const latestFirst = [...captures].sort(
    ([one, a], [other, b]) =>
      Number(other === final) - Number(one === final) || b.takenAt - a.takenAt,
  )
  for (const [, { capture }] of latestFirst) {
    const exam = examInCapture(lab, capture)
    if (exam) return exam
  }
  return undefined
}

function resultOf({ sealed: _sealed, openedAt: _openedAt, ...exam }: Exam): ExamResult {
  const { points, most } = examPoints(exam.parts)
  return { ...exam, points, maxPoints: most }
}

/** The result in one line: `seed 7, 185/200 points, 2 of 3 incidents handed in, 12 min 5 s`. */
export function describeExam({
  seed,
  hard,
  points,
  maxPoints,
  parts,
  of,
  endedAt,
}: ExamResult): string {
  const handedIn = endedAt ? `${of} incidents` : `${parts.length} of ${of} incidents handed in`
  const seconds = endedAt ? examSeconds({ parts }) : undefined
  return [
    `seed ${inOneLine(seed)}`,
    `${points}/${maxPoints} points`,
    handedIn,
    ...(hard ? ['without a list of causes'] : []),
    ...(seconds === undefined ? [] : [describeSeconds(seconds)]),
  ].join(', ')
}

/** Each incident that was handed in, in a line. */
export const describeExamParts = ({ parts }: ExamResult): string[] =>
  parts.map((part) => inOneLine(describePart(part)))

/**
 * How many learners handed an incident in, and for how many of them it did not earn all points; the
 * most missed first.
 */
export function missedIncidents(
  graded: readonly Graded[],
): { id: string; learners: number; missed: number }[] {
  const parts = graded.flatMap(({ exam, counts }) => (counts && exam ? exam.parts : []))
  return [...groupBy(parts, ({ id }) => id)]
    .map(([id, all]) => ({
      id,
      learners: all.length,
      missed: all.filter(({ diagnosed, repaired }) => !diagnosed || !repaired).length,
    }))
    .toSorted((a, b) => b.missed - a.missed || (a.id < b.id ? -1 : 1))
}
