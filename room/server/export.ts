// The end of a class: a table of what the room has seen, and the class report that grading writes,
// from what the learners' own checks said.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readLab } from '../../grading/lab-definition.ts'
import type { Report } from '../../grading/report-schema.ts'
import { plainJson } from '../../host/plain-text.ts'
import { classResult } from '../../instructors/class/class-result.ts'
import { printsOf } from '../../instructors/class/copies.ts'
import { csvCell, htmlOf } from '../../instructors/class/formats/tables.ts'
import { gradedReport } from '../../instructors/class/judge-file.ts'
import type { AssignedTask } from '../../instructors/class/room-tasks.ts'
import type { StepFact } from '../protocol.ts'
import { factOf, type LearnerState, type RoomState } from './room-state.ts'
import { stepFacts } from './tiles.ts'

const WARNING =
  'That it is true: this report has what the learners’ own machines told the room. Grade submissions (`make grade-class`) for marks.'

/** Writes room.csv, tasks.csv and report.html into the room's folder, and returns their paths. */
export function exportRoom({ state, folder }: { state: RoomState; folder: string }): string[] {
  const files = {
    'room.csv': roomCsv(state),
    'tasks.csv': tasksCsv(state),
    'tasks.json': `${plainJson(exportedTasks(state))}\n`,
    'report.html': reportHtml(state),
  }
  return Object.entries(files).map(([name, text]) => {
    const file = join(folder, name)
    writeFileSync(file, text)
    return file
  })
}

const learnersOf = ({ learners }: RoomState): LearnerState[] =>
  [...learners.values()].filter(({ isRemoved }) => !isRemoved)

const nameOf = (learner: LearnerState): string =>
  factOf(learner, 'name')?.fact.name ?? `learner ${learner.tile}`

const table = (rows: readonly (readonly (string | number)[])[]): string =>
  `${rows.map((row) => row.map(csvCell).join(',')).join('\r\n')}\r\n`

const dateOf = (ms: number | undefined): string =>
  ms === undefined ? '' : new Date(ms).toISOString()

/** One row for each learner and step (RFC 4180). */
export function roomCsv(state: RoomState): string {
  const head = 'learner lab step verdict points hints at node found prediction answer'.split(' ')
  const rows = learnersOf(state).flatMap((learner) =>
    stepFacts(learner)
      .sort((one, other) => one.fact.lab - other.fact.lab)
      .map(({ at, fact }) => {
        const { lab, step, verdict, points, hints, finding } = fact
        const answer = (what: string) =>
          factOf(learner, 'answer', `answer ${lab} ${step} ${what}`)?.fact.text ?? ''
        const seen = [finding?.node ?? '', finding?.found ?? '']
        const result = [verdict, points, hints, dateOf(at), ...seen]
        return [nameOf(learner), lab, step, ...result, answer('prediction'), answer('answer')]
      }),
  )
  return table([head, ...rows])
}

/**
 * One row for each task that was given: what captures of this learner after that time must contain.
 */
function tasksCsv(state: RoomState): string {
  const head = 'learner task nonce given answered right answer found'.split(' ')
  const rows = learnersOf(state).flatMap((learner) =>
    [...learner.tasks.values()].flatMap(({ task, givenAt }) => {
      if (givenAt === undefined) return []
      const answer = factOf(learner, 'task', `task ${task.id}`)
      const { right, text = '', found = '' } = answer?.fact ?? {}
      const isRight = right === undefined ? '' : right ? 'yes' : 'no'
      const when = [dateOf(givenAt), dateOf(answer?.at)]
      return [[nameOf(learner), task.task, task.nonce, ...when, isRight, text, found]]
    }),
  )
  return table([head, ...rows])
}

/**
 * The tasks as `grade-class.ts --tasks` reads them, each with the lab that its learner was at when
 * the answer came.
 */
function exportedTasks(state: RoomState): AssignedTask[] {
  return learnersOf(state).flatMap((learner) =>
    [...learner.tasks.values()].flatMap(({ task, givenAt }) => {
      const answer = factOf(learner, 'task', `task ${task.id}`)
      if (givenAt === undefined) return []
      const lab = answer?.fact.lab
      return [
        {
          learner: nameOf(learner),
          task: task.task,
          nonce: task.nonce,
          givenAt,
          ...(lab !== undefined && { lab }),
        },
      ]
    }),
  )
}

/** The class report of what the learners' own machines told. */
export function reportHtml(state: RoomState): string {
  const judged = learnersOf(state).flatMap((learner) => {
    const facts = stepFacts(learner)
    const labs = [...new Set(facts.map(({ fact }) => fact.lab))].sort((one, other) => one - other)
    return labs.map((lab) => {
      const own = facts.filter(({ fact }) => fact.lab === lab)
      const at = Math.max(...own.map((kept) => kept.at))
      const report = reportOfFacts(
        lab,
        own.map(({ fact }) => fact),
        at,
      )
      const file = `room, learner ${learner.tile}`
      const graded = gradedReport(report, { learner: nameOf(learner), file })
      // Two learners may have one name.
      return { file, graded, seed: String(learner.tile), prints: printsOf([]) }
    })
  })
  const result = classResult(judged, 0)
  return htmlOf({ ...result, cannotKnow: [WARNING, ...result.cannotKnow] })
}

function reportOfFacts(number: number, facts: readonly StepFact[], at: number): Report {
  const lab = readLab(number)
  const steps = lab.steps.map(({ id, title, claims, points: maxPoints }) => {
    const { verdict = 'not yet', points = 0, finding } = facts.find(({ step }) => step === id) ?? {}
    const own = verdict === 'passed' ? Math.min(points, maxPoints) : 0
    return {
      id,
      title,
      claims,
      verdict,
      points: own,
      maxPoints,
      ...(finding && {
        finding: {
          node: finding.node,
          inspect: finding.command,
          expected: finding.expected,
          actual: finding.found,
          differences: [],
          why: '',
          hint: '',
        },
      }),
    }
  })
  const judged = steps.filter(
    ({ verdict }) => verdict !== 'not applicable' && verdict !== 'could not check',
  )
  return {
    schema: 'kube-service-labs/report/v1',
    lab: number,
    title: lab.title,
    source: { kind: 'cluster', driver: 'room', name: 'room' },
    gradedAt: new Date(at).toISOString(),
    seconds: 0,
    versions: { node: process.version },
    steps,
    score: judged.reduce((sum, { points }) => sum + points, 0),
    maxScore: judged.reduce((sum, { maxPoints }) => sum + maxPoints, 0),
    complete: false,
    exitCode: judged.every(({ verdict }) => verdict === 'passed') ? 0 : 1,
  }
}
