import { plainText } from '../../../host/plain-text.ts'
import type { ClassResult } from '../result.ts'
import { flagText } from './flag-text.ts'

const HEAD = [
  'learner',
  'lab',
  'score',
  'max_score',
  'percent',
  'submitted_at',
  'counts',
  'signature',
  'step',
  'verdict',
  'points',
  'max_points',
  'reason',
  'flags',
  'file',
]

/**
 * One row per learner and step, and one per learner with the sum (its `step` is empty); refused files have a row with the
 * verdict `refused`. RFC 4180.
 */
export function csvOf({ graded, refused }: ClassResult): string {
  const rows: (string | number)[][] = [HEAD]
  for (const { learner, lab, score, maxScore, submittedAt, counts, signature, steps, flags, file } of graded) {
    const who = (own: number, most: number) => [
      learner,
      lab,
      own,
      most,
      percent(own, most),
      submittedAt,
      counts ? 'yes' : 'no',
      signature,
    ]
    rows.push([...who(score, maxScore), '', '', score, maxScore, '', flagText(flags), file])
    for (const { id, verdict, points, maxPoints, reason, finding } of steps)
      rows.push([...who(score, maxScore), id, verdict, points, maxPoints, reason ?? finding?.actual ?? '', '', file])
  }
  for (const { file, reason } of refused)
    rows.push(['', '', '', '', '', '', '', '', '', 'refused', '', '', reason, '', file])
  return `${rows.map((row) => row.map(csvCell).join(',')).join('\r\n')}\r\n`
}

/**
 * One cell. Text that a spreadsheet would run as a formula gets an apostrophe in front, which the spreadsheet hides; control
 * characters become visible.
 */
export function csvCell(value: string | number): string {
  if (typeof value === 'number') return String(value)
  const text = plainText(value).replaceAll('\n', ' ')
  const safe = /^[\s]*[=+\-@|%＝＋－＠]/.test(text) ? `'${text}` : text
  return /[",';\s]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const percent = (own: number, most: number) => (most === 0 ? 0 : Math.round((1000 * own) / most) / 10)
