// What an exam comes to: points, time, and what to read again.

import { chalk } from 'zx/core'
import { readLab } from '../../grading/lab-definition.ts'
import { typedWord } from '../../host/shell-word.ts'
import { type Exam, type ExamPart, examPoints } from './exam-note.ts'
import type { FactTable } from './key-facts.ts'

/** Seconds as people read them: `8 min 5 s`. */
export function describeSeconds(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  return minutes === 0 ? `${seconds} s` : `${minutes} min ${seconds % 60} s`
}

const countedNoun = (count: number, what: string) =>
  `${count} ${what}${count === 1 ? '' : what.endsWith('s') ? 'es' : 's'}`

/** One incident that was handed in, in a line. */
export function describePart({ id, points, of, seconds, hints, wrong, ...part }: ExamPart): string {
  const flaws = [
    ...(part.diagnosed ? [] : ['cause not named']),
    ...(part.repaired ? [] : ['not repaired']),
    ...(hints > 0 ? [countedNoun(hints, 'hint')] : []),
    ...(wrong > 0 ? [`${wrong} wrong ${wrong === 1 ? 'diagnosis' : 'diagnoses'}`] : []),
  ]
  const score = `${points}/${of}`.padStart(7)
  return `${id.padEnd(24)} ${score}  ${describeSeconds(seconds)}${flaws.length > 0 ? `  (${flaws.join(', ')})` : ''}`
}

/** Where an exam stands: which incident is open, and the time since it began. */
export function examHeading(
  { seed, hard, of, parts, startedAt, endedAt }: Exam,
  now = Date.now(),
): string {
  const seconds = Math.round(((endedAt ? Date.parse(endedAt) : now) - Date.parse(startedAt)) / 1000)
  const place = endedAt
    ? countedNoun(of, 'incident')
    : `incident ${Math.min(parts.length + 1, of)} of ${of}`
  return chalk.bold(
    `Exam, seed ${seed}, ${place}${hard ? ', without a list of causes' : ''}: ${describeSeconds(seconds)}`,
  )
}

/** The steps that teach what an incident needed, for those that did not earn all points; each once, with its title. */
export function stepsToRead(parts: readonly ExamPart[], table: FactTable): string[] {
  const places = parts
    .filter(({ points, of }) => points < of)
    .flatMap(({ id }) => table[id]?.reads ?? [])
  return [...new Set(places)].sort().flatMap((place) => {
    const [lab, step] = place.split('/')
    const { steps } = readLab(Number(lab))
    const number = steps.findIndex(({ id }) => id === step) + 1
    return number > 0 ? [`lab ${lab}, step ${number}: ${steps[number - 1]?.title}`] : []
  })
}

/** The result: every incident, the sum, and which steps of which labs to read again. */
export function examResult(exam: Exam, table: FactTable): string[] {
  const { parts, seed, hard, of } = exam
  const { points, most } = examPoints(parts)
  const percent = most === 0 ? 0 : Math.round((points / most) * 100)
  const reading = stepsToRead(parts, table)
  return [
    examHeading(exam),
    ...parts.map((part, index) => `  ${index + 1}. ${describePart(part)}`),
    `  ${'together'.padEnd(27)} ${`${points}/${most}`.padStart(7)}  ${percent}%`,
    '',
    ...(reading.length > 0
      ? [chalk.bold('Read again:'), ...reading.map((place) => `  ${place}`)]
      : ['Nothing to read again: every incident earned all of its points.']),
    '',
    `The same exam again: make exam SEED=${typedWord(seed)} N=${of}${hard ? ' HARD=1' : ''}. Another one: make exam SEED=…`,
  ]
}
