// The final exam: several incidents in a row, drawn by a seed, each handed in before the next one
// begins.

import { createHash } from 'node:crypto'
import * as z from 'zod'
import { takeObjects } from '../../cluster/snapshot.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { LabNotes, writeNotes } from '../../grading/lab-notes.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { reportOf } from '../../grading/report.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { Refusal } from '../../host/main.ts'
import type { LabBench } from '../lab-bench.ts'
import { EXAM_KEY, type Exam, type ExamPart, examIn, LONGEST_EXAM } from './exam-note.ts'
import { draw, type Incident, loadIncidents, possible } from './incident.ts'
import {
  CLOSED_KEY,
  closedNote,
  DIAGNOSIS,
  GUESS_PREFIX,
  INCIDENT_KEY,
  type IncidentNote,
  incidentNote,
  sealValue,
  unsealValue,
} from './incident-note.ts'
import { type FactTable, loadKeyFacts } from './key-facts.ts'
import { environmentFeatures, openNext } from './open.ts'
import { INCIDENT_LAB } from './shop.ts'

const DEFAULT_LENGTH = 3

/** Reads how many incidents an exam has. Throws Refusal with an example. */
export function examLength(text: string | undefined): number {
  if (!text) return DEFAULT_LENGTH
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= 1 && number <= LONGEST_EXAM) return number
  throw new Refusal(
    `"${text}" is not a number of incidents from 1 to ${LONGEST_EXAM}: write it as in \`make exam N=3\`.`,
  )
}

/** The lab that teaches what an incident needs most. */
const labOf = (id: string, table: FactTable) => table[id]?.reads[0]?.split('/')[0] ?? ''

/**
 * The incidents of an exam, the same for the same seed on the same kind of cluster: from as many
 * labs as possible, in an order that says nothing.
 */
export function drawExam(
  incidents: readonly Incident[],
  table: FactTable,
  seed: string,
  length: number,
): Incident[] {
  const order = ({ id }: Incident) => createHash('sha256').update(`exam ${seed}\n${id}`).digest()
  const shuffled = [...incidents].sort((a, b) => Buffer.compare(order(a), order(b)))
  const firstOfLab = shuffled.filter(
    ({ id }, index) =>
      shuffled.findIndex((other) => labOf(other.id, table) === labOf(id, table)) === index,
  )
  const others = shuffled.filter((incident) => !firstOfLab.includes(incident))
  return [...firstOfLab, ...others].slice(0, length)
}

/** The exam in the notes; undefined if none was begun. */
export async function readExam({ cluster, client }: LabBench): Promise<Exam | undefined> {
  const snapshot = new Snapshot(await takeObjects(cluster, client))
  return examIn(snapshot)
}

const keepExam = ({ client }: LabBench, exam: Exam) =>
  writeNotes(client, INCIDENT_LAB, { [EXAM_KEY]: JSON.stringify(exam) })

/**
 * The first of the seeds with this beginning that draws the incident, as `make incident SEED=…`
 * does.
 */
function seedThatDraws(
  here: readonly Incident[],
  id: string | undefined,
  beginning: string,
): string {
  for (let count = 1; ; count++) {
    const seed = `${beginning}-${count}`
    if (draw(here, seed).id === id || !here.some((one) => one.id === id)) return seed
  }
}

/** Begins an exam with its first incident, instead of one that is open. Resolves to both. */
export async function beginExam(
  bench: LabBench,
  { seed, length, hard }: { seed: string; length: number; hard: boolean },
): Promise<{ exam: Exam; note: IncidentNote }> {
  const here = possible(await loadIncidents(), await environmentFeatures(bench))
  const drawn = drawExam(here, await loadKeyFacts(), seed, length)
  const exam: Exam = {
    seed,
    hard,
    startedAt: new Date().toISOString(),
    sealed: sealValue(drawn.map(({ id }) => id)),
    of: drawn.length,
    parts: [],
  }
  return openPart(bench, exam)
}

/** Opens the incident that follows those that were handed in. */
async function openPart(
  bench: LabBench,
  before: Exam,
): Promise<{ exam: Exam; note: IncidentNote }> {
  const { openedAt: _previous, ...exam } = before
  // Stored first: if the incident can't be opened now, the next try begins here.
  await keepExam(bench, exam)
  const id = z.array(z.string()).parse(unsealValue(exam.sealed))[exam.parts.length]
  const here = possible(await loadIncidents(), await environmentFeatures(bench))
  const seed = seedThatDraws(here, id, `${exam.seed}-${exam.parts.length + 1}`)
  const note = await openNext(bench, { id, seed, hard: exam.hard })
  const opened = { ...exam, openedAt: note.openedAt }
  await keepExam(bench, opened)
  return { exam: opened, note }
}

/**
 * Hands in the open incident as it is now, and opens the next one unless it was the last.
 * @throws Error if a step could not be checked: nothing is handed in then
 */
export async function nextOfExam(
  bench: LabBench,
  exam: Exam,
): Promise<{ exam: Exam; part?: ExamPart; note?: IncidentNote }> {
  if (exam.openedAt === undefined) return openPart(bench, exam)
  const part = await gradePart(bench, exam)
  const { openedAt: _openedAt, ...rest } = exam
  const handedIn: Exam = { ...rest, parts: [...exam.parts, part] }
  if (handedIn.parts.length < exam.of) return { part, ...(await openPart(bench, handedIn)) }
  const ended = { ...handedIn, endedAt: new Date().toISOString() }
  await keepExam(bench, ended)
  return { exam: ended, part }
}

/** What the open incident has earned now; nothing if another one was started instead. */
async function gradePart(bench: LabBench, exam: Exam): Promise<ExamPart> {
  const lab = readLab(INCIDENT_LAB)
  const id = z.array(z.string()).parse(unsealValue(exam.sealed))[exam.parts.length] ?? ''
  const source = await openCluster(bench.cluster)
  const { outcomes, snapshot } = await judge(await loadSpec(lab), source)
  const unchecked = outcomes.find(({ verdict }) => verdict === 'could not check')
  if (unchecked)
    throw new Error(
      `Step "${unchecked.id}" could not be checked (${unchecked.reason}), so nothing was handed in: run \`make exam NEXT=1\` again.`,
    )
  const request = {
    lab: INCIDENT_LAB,
    source: { kind: 'cluster' as const, name: bench.cluster.name, driver: bench.cluster.driver },
  }
  const { score, maxScore } = reportOf(lab, request, outcomes, { snapshot, seconds: 0 })
  // Grading has just stored when it was repaired.
  const data = new Snapshot(await takeObjects(bench.cluster, bench.client))
  const notes = new LabNotes(INCIDENT_LAB, data)
  const note = notes.read(INCIDENT_KEY, incidentNote)
  const isOwn = note?.openedAt === exam.openedAt
  const closed = isOwn ? notes.read(CLOSED_KEY, closedNote) : undefined
  const passed = (step: string) =>
    isOwn && outcomes.some((one) => one.id === step && one.verdict === 'passed')
  const end = closed ? Date.parse(closed.at) : Date.now()
  return {
    id,
    points: isOwn ? score : 0,
    of: maxScore,
    seconds: Math.round((end - Date.parse(exam.openedAt ?? exam.startedAt)) / 1000),
    hints: isOwn ? (note?.hints ?? 0) : 0,
    wrong: isOwn ? notes.count(GUESS_PREFIX) : 0,
    diagnosed: passed(DIAGNOSIS),
    repaired: passed('report') && passed('cause'),
  }
}
