// What an exam comes to: points, time, and what to read again.

import { chalk } from 'zx/core'
import { readLab } from '../../grading/lab-definition.ts'
import { typedWord } from '../../host/shell-word.ts'
import { wrapLines } from '../../host/wrap-lines.ts'
import { type Exam, type ExamPart, examPoints, examSeconds } from './exam-note.ts'
import { describeSeconds } from './incident-note.ts'
import type { FactTable } from './key-facts.ts'

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

const WIDTH = 100

/** A text as lines that fit; the second and later ones are indented by `hanging`. */
const laidOut = (text: string, columns: number, hanging = ''): string[] =>
  wrapLines(text, Math.min(columns, WIDTH), '', hanging)

/** The incidents that were handed in, numbered, as lines. */
export const partLines = (parts: readonly ExamPart[], columns = WIDTH): string[] =>
  parts.flatMap((part, index) =>
    wrapLines(describePart(part), Math.min(columns, WIDTH), `  ${index + 1}. `),
  )

/** What an incident was, now that it can be told, as lines. */
export function handedInLines(
  part: ExamPart,
  incident: { cause: string; debrief: string } | undefined,
  columns = WIDTH,
): string[] {
  const head = laidOut(`Handed in: ${describePart(part)}`, columns, '  ')
  if (!incident) return head
  const { cause, debrief } = incident
  return [
    ...head,
    '',
    ...laidOut(`The cause: ${cause}.`, columns),
    ...laidOut(debrief.replaceAll('\n', ' '), columns),
  ]
}

/**
 * The state of an exam: which incident is open, and how long the learner has worked on all of them.
 */
export function examHeading(exam: Exam, columns = WIDTH): string {
  const { seed, hard, of, parts, endedAt } = exam
  const seconds = examSeconds(exam)
  const place = endedAt
    ? countedNoun(of, 'incident')
    : `incident ${Math.min(parts.length + 1, of)} of ${of}`
  const text = `Exam, seed ${seed}, ${place}${hard ? ', without a list of causes' : ''}: ${describeSeconds(seconds)}`
  return laidOut(text, columns)
    .map((line) => chalk.bold(line))
    .join('\n')
}

/**
 * The steps that teach what an incident needed, for those that did not earn all points; each once,
 * with its title.
 */
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
export function examResult(exam: Exam, table: FactTable, columns = WIDTH): string[] {
  const { parts, seed, hard, of } = exam
  const { points, most } = examPoints(parts)
  const percent = most === 0 ? 0 : Math.round((points / most) * 100)
  const reading = stepsToRead(parts, table)
  return [
    examHeading(exam, columns),
    ...partLines(parts, columns),
    `  ${'together'.padEnd(27)} ${`${points}/${most}`.padStart(7)}  ${percent}%`,
    '',
    ...(reading.length > 0
      ? [
          chalk.bold('Read again:'),
          ...reading.flatMap((place) => wrapLines(place, Math.min(columns, WIDTH), '  ', '    ')),
        ]
      : laidOut('Nothing to read again: every incident earned all of its points.', columns)),
    '',
    ...laidOut(
      `The same exam again: make exam SEED=${typedWord(seed)} N=${of}${hard ? ' HARD=1' : ''}.`,
      columns,
    ),
    'Another one: make exam SEED=…',
  ]
}
