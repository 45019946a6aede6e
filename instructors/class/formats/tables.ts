import type { Verdict } from '../../../grading/report-schema.ts'
import { plainText, visibleText } from '../../../host/plain-text.ts'
import { describeExam, describeExamParts, missedIncidents } from '../exam-result.ts'
import {
  type ClassResult,
  type ExamResult,
  type Flag,
  foundText,
  type Graded,
  type GradedStep,
  type LabSummary,
} from '../result.ts'

/** An exam in one line, with its incidents. */
const examText = (exam: ExamResult) => [describeExam(exam), ...describeExamParts(exam)].join('; ')

/** The flags of a submission in one line. */
const flagText = (flags: readonly Flag[]) =>
  flags.map(({ kind, text }) => `${kind}: ${text}`).join(' ')

/**
 * Text for XML 1.0: markup escaped, characters that XML forbids (section 2.2 of the recommendation)
 * made visible.
 */
export function xmlText(text: string): string {
  return visibleText(text)
    .replace(
      /[\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      visible,
    )
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}

const visible = (character: string) => `\\u${character.charCodeAt(0).toString(16)}`

const HEAD =
  'learner lab score max_score percent submitted_at counts signature step verdict points max_points reason flags file'

/**
 * One row per learner and step, and one per learner with the sum (its `step` is empty); the exam of
 * lab 8 has a row with the verdict `exam`, whose points are in no sum; refused files have a row
 * with the verdict `refused`. RFC 4180.
 */
export function csvOf({ graded, refused }: ClassResult): string {
  const rows: (string | number)[][] = [HEAD.split(' ')]
  for (const {
    learner,
    lab,
    score,
    maxScore,
    submittedAt,
    counts,
    signature,
    steps,
    flags,
    file,
    exam,
  } of graded) {
    const result = [score, maxScore, percent(score, maxScore), submittedAt]
    const who = [learner, lab, ...result, counts ? 'yes' : 'no', signature]
    rows.push([...who, '', '', score, maxScore, '', flagText(flags), file])
    for (const { id, verdict, points, maxPoints, reason, finding } of steps)
      rows.push([...who, id, verdict, points, maxPoints, reason ?? finding?.actual ?? '', '', file])
    if (exam)
      rows.push([...who, 'exam', 'exam', exam.points, exam.maxPoints, examText(exam), '', file])
  }
  for (const { file, reason } of refused)
    rows.push([...Array<string>(9).fill(''), 'refused', '', '', reason, '', file])
  return `${rows.map((row) => row.map(csvCell).join(',')).join('\r\n')}\r\n`
}

/**
 * One cell. Text that a spreadsheet would run as a formula gets an apostrophe in front, which the
 * spreadsheet hides; control characters become visible.
 */
export function csvCell(value: string | number): string {
  if (typeof value === 'number') return String(value)
  const text = plainText(value).replaceAll('\n', ' ')
  const safe = /^[\s]*[=+\-@|%＝＋－＠]/.test(text) ? `'${text}` : text
  return /[",';\s]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const percent = (own: number, most: number) =>
  most === 0 ? 0 : Math.round((1000 * own) / most) / 10

const MARKS: Record<Verdict, [mark: string, style: string]> = {
  passed: ['✓', 'pass'],
  failed: ['✗', 'fail'],
  'not yet': ['–', 'wait'],
  'not applicable': ['·', 'none'],
  'could not check': ['!', 'odd'],
}

const STYLE = `body{font:16px/1.45 system-ui,sans-serif;margin:2rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;margin:.8rem 0 2rem}th,td{border:1px solid #c9d1d9;padding:.2rem .55rem;text-align:left;vertical-align:top}
thead th{background:#f3f5f7}td.n{text-align:right}td.m{text-align:center;font-weight:700}
.pass{background:#dff3e3;color:#0b5d1e}.fail{background:#fbe0de;color:#8c1510}.wait{background:#f6efd0;color:#5c4700}.odd{background:#ece2fa;color:#4b2a86}.none{color:#57606a}
.flag{color:#8c1510}.old{color:#57606a}.bar{display:inline-block;height:.7em;background:#b3261e}.scroll{overflow-x:auto}small{color:#57606a}`

/**
 * One page without scripts or external resources: per lab, the results of each step and each
 * learner.
 */
export function htmlOf(result: ClassResult): string {
  const { graded, refused, labs, cannotKnow, gradedAt, seconds } = result
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Class of ${graded.length} submissions</title><style>${STYLE}</style></head><body>
<h1>${graded.length} submissions graded, ${refused.length} refused</h1>
<p>${xmlText(gradedAt)}, ${seconds} s. Marks: ✓ passed, ✗ failed, – not yet, · not judged, ! could not be checked.</p>
${labs.map((summary) => labSection(summary, graded)).join('\n')}
${refused.length > 0 ? refusedSection(refused) : ''}
<h2>What these grades can not know</h2>
<ul>${cannotKnow.map((text) => `<li>${xmlText(text)}</li>`).join('')}</ul>
</body></html>
`
}

function labSection(lab: LabSummary, graded: readonly Graded[]): string {
  const entries = graded.filter((entry) => entry.lab === lab.lab)
  const heads = lab.steps.map(
    ({ number, id }) => `<th scope="col"><abbr title="${xmlText(id)}">${number}</abbr></th>`,
  )
  return `<h2>Lab ${lab.lab}: ${xmlText(lab.title)}</h2>
<p>${lab.learners} learners, ${lab.finished} finished, ${lab.meanPercent} % of the points on average.</p>
<table><thead><tr><th scope="col">Step</th><th scope="col">What must hold</th><th scope="col">How it went</th></tr></thead><tbody>
${lab.steps.map(stepRow).join('\n')}
</tbody></table>
<div class="scroll"><table><thead><tr><th scope="col">Learner</th><th scope="col">Points</th>${heads.join('')}<th scope="col">A reason to look</th></tr></thead><tbody>
${entries.map(learnerRow).join('\n')}
</tbody></table></div>${examSection(entries)}`
}

/** The exams of a lab's learners: each result, and which incidents to discuss. */
function examSection(entries: readonly Graded[]): string {
  const rows = entries.flatMap(({ learner, counts, exam }) =>
    exam && counts ? [examRow(learner, exam)] : [],
  )
  if (rows.length === 0) return ''
  const incidents = missedIncidents(entries).map(
    ({ id, learners, missed }) =>
      `<tr><td>${xmlText(id)}</td><td>${missed === 0 ? `solved by all ${learners}` : `not solved by ${missed} of ${learners}`}</td></tr>`,
  )
  return `
<h3>The exam</h3>
<table><thead><tr><th scope="col">Learner</th><th scope="col">Points</th><th scope="col">Result</th><th scope="col">Incidents</th></tr></thead><tbody>
${rows.join('\n')}
</tbody></table>
<table><thead><tr><th scope="col">Incident</th><th scope="col">How it went</th></tr></thead><tbody>
${incidents.join('\n')}
</tbody></table>`
}

function examRow(learner: string, exam: ExamResult): string {
  const parts = describeExamParts(exam).map((line) => `<div>${xmlText(line)}</div>`)
  return `<tr><th scope="row">${xmlText(learner)}</th><td class="n">${exam.points}/${exam.maxPoints}</td><td>${xmlText(describeExam(exam))}</td><td>${parts.join('')}</td></tr>`
}

function stepRow({ number, id, title, learners, failed }: LabSummary['steps'][number]): string {
  const sentence =
    learners === 0
      ? 'not judged'
      : failed === 0
        ? `passed by all ${learners}`
        : `step ${number} failed for ${failed} of ${learners}`
  const width = learners === 0 ? 0 : Math.round((100 * failed) / learners)
  return `<tr><td class="n">${number} ${xmlText(id)}</td><td>${xmlText(title)}</td><td>${sentence} <span class="bar" style="width:${width}px"></span></td></tr>`
}

function learnerRow({
  learner,
  score,
  maxScore,
  steps,
  flags,
  counts,
  submittedAt,
  signature,
}: Graded): string {
  const notes = flags.map(({ text }) => `<div class="flag">${xmlText(text)}</div>`).join('')
  const attempt = counts ? '' : ' <small>earlier attempt</small>'
  const signed = signature === 'valid' ? ' <small>signed</small>' : ''
  return `<tr${counts ? '' : ' class="old"'}><th scope="row">${xmlText(learner)}${attempt}${signed}<br><small>${xmlText(submittedAt)}</small></th><td class="n">${score}/${maxScore}</td>${steps.map(stepCell).join('')}<td>${notes}</td></tr>`
}

function stepCell(step: GradedStep): string {
  const { id, verdict } = step
  const [mark, style] = MARKS[verdict]
  const found = foundText(step)
  const title = found === verdict ? `${id}: ${verdict}` : `${id}: ${verdict}, ${found}`
  return `<td class="m ${style}" title="${xmlText(title)}">${mark}</td>`
}

function refusedSection(refused: ClassResult['refused']): string {
  const rows = refused.map(
    ({ file, reason }) =>
      `<tr><th scope="row">${xmlText(file)}</th><td>${xmlText(reason)}</td></tr>`,
  )
  return `<h2>Refused</h2><table><thead><tr><th scope="col">File</th><th scope="col">Why</th></tr></thead><tbody>${rows.join('')}</tbody></table>`
}
