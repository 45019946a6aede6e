// The exam of lab 8: [SEED=7] [N=3] [HARD=1] exam.ts begins one; without them it shows the one that
// was begun; NEXT=1 hands in.

import { randomInt } from 'node:crypto'
import { runningCluster } from '../cluster/select.ts'
import { beginExam, examLength, nextOfExam, readExam } from '../course/incident/exam.ts'
import type { Exam, ExamPart } from '../course/incident/exam-note.ts'
import {
  examHeading,
  examResult,
  handedInLines,
  partLines,
} from '../course/incident/exam-report.ts'
import { describeIncident } from '../course/incident/incident.ts'
import type { IncidentNote } from '../course/incident/incident-note.ts'
import { loadKeyFacts } from '../course/incident/key-facts.ts'
import { currentNote } from '../course/incident/open.ts'
import { LabBench } from '../course/lab-bench.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { isOn } from '../host/switches.ts'
import { wrapLines } from '../host/wrap-lines.ts'
import { incidents } from '../labs/08-incidents/incidents/all.ts'

const { columns } = process.stdout

await main(async () => {
  const { SEED, N } = process.env
  const [isHard, isNext, isShown] = [isOn('HARD'), isOn('NEXT'), isOn('SHOW')]
  const length = examLength(N)
  const isNew = [SEED, N, isHard].some(Boolean)
  const cluster = await runningCluster()
  const purpose = isShown
    ? undefined
    : 'start incidents of an exam and repair the previous ones, and note what they earned'
  const bench = await LabBench.open(cluster, createProgress(), purpose)
  const known = isNew && !isNext && !isShown ? undefined : await readExam(bench)
  if (!known && (isNext || isShown))
    throw new Refusal('No exam was begun: `make exam` begins one, with SEED=, N= and HARD=1.')
  if (isNext && known?.endedAt) throw new Refusal('The exam is over: `make exam` shows its result.')
  if (!known) {
    const seed = SEED || String(randomInt(1_000_000))
    const { exam, note } = await beginExam(bench, { seed, length, hard: isHard })
    return printOpen(exam, note)
  }
  if (!isNext) return showExam(bench, known)
  const { exam, part, note } = await nextOfExam(bench, known)
  if (part) printHandedIn(part)
  if (note) printOpen(exam, note)
  else await printExamResult(exam)
})

/** Prints the state of the exam, without changing anything. */
async function showExam(bench: LabBench, exam: Exam): Promise<void> {
  if (exam.endedAt) return printExamResult(exam)
  const note = await currentNote(bench)
  if (note && note.openedAt === exam.openedAt) return printOpen(exam, note)
  console.log(examHeading(exam, columns))
  const text =
    'Its incident is no longer open, and earns no points: make exam NEXT=1 goes on, make exam SEED=… begins another exam.'
  for (const line of wrapLines(text, columns ?? 100)) console.log(line)
}

function printOpen(exam: Exam, note: IncidentNote): void {
  const again = `Hand in and go on: make exam NEXT=1, repaired or not.`
  console.log(`\n${examHeading(exam, columns)}`)
  for (const line of partLines(exam.parts, columns)) console.log(line)
  console.log(`\n${describeIncident(note, incidents, { columns, again })}`)
}

/** What the incident was, now that it can be told. */
function printHandedIn(part: ExamPart): void {
  const incident = incidents.find(({ id }) => id === part.id)
  console.log(`\n${handedInLines(part, incident, columns).join('\n')}`)
}

async function printExamResult(exam: Exam): Promise<void> {
  console.log(`\n${examResult(exam, await loadKeyFacts(), columns).join('\n')}`)
}
