import { groupBy } from '../../dataplane/collections.ts'
import { inOneLine, shortened } from '../../host/plain-text.ts'
import { type CopyOptions, copyFlags } from './copies.ts'
import { describeExam, missedIncidents } from './exam-result.ts'
import type { JudgedFile } from './judge-file.ts'
import type { ClassResult, Flag, Graded, LabSummary } from './result.ts'

/** Printed in every report: what a grade from captures cannot prove. */
const CANNOT_KNOW: readonly string[] = [
  'Who did the work: it can be another person, or `make solve-N`.',
  'Whether a capture is genuine: a learner is root on the cluster, so a skilled forger can write one that passes. Flags find copies and careless forgeries; they are reasons to look and cost no points.',
  'The real time: every date comes from the clock of a machine that the learner controls.',
  'Steps that send real requests: a capture cannot answer them, so they are not graded here. Grade the live cluster to include them.',
  'Whether the notes about past moments are genuine: they are stored in the learner’s own cluster and can be edited there.',
  'Whether a signed file is the learner’s own work: a valid signature only proves that the holder of that learner’s key made the file.',
]

/**
 * Combines the results of a class: attempts, flags from comparisons within the class, and the
 * figures per step.
 */
export function classResult(
  judged: readonly JudgedFile[],
  seconds: number,
  now = new Date(),
  options: CopyOptions = {},
): ClassResult {
  const read = judged.filter((entry) => 'graded' in entry)
  const refused = judged.flatMap((entry) =>
    'refused' in entry ? [{ file: entry.file, reason: entry.refused }] : [],
  )
  const copies = copyFlags(read, options)
  const flagged = read.map(({ graded }, index) => ({
    ...graded,
    flags: [...(copies[index] ?? []), ...graded.flags],
  }))
  const graded = markAttempts(flagged).sort(byLabAndLearner)
  return {
    schema: 'kube-service-labs/class/v1',
    gradedAt: now.toISOString(),
    seconds: Number(seconds.toFixed(2)),
    graded,
    refused,
    labs: [...groupBy(graded, ({ lab, counts }) => (counts ? `${lab}` : undefined)).values()].map(
      labSummary,
    ),
    cannotKnow: [...CANNOT_KNOW],
    // 0: all were graded, with any result; 2: a file was refused or nothing was graded.
    exitCode: refused.length > 0 || graded.length === 0 ? 2 : 0,
  }
}

/**
 * If a learner has several submissions for one lab, the latest counts; of equal ones the second
 * gets a flag.
 */
function markAttempts(graded: readonly Graded[]): Graded[] {
  const key = ({ learner, lab }: Graded) => `${lab} ${learner.toLowerCase()}`
  const later = (a: Graded, b: Graded) =>
    Date.parse(b.submittedAt) > Date.parse(a.submittedAt) ? b : a
  const attempts = groupBy(graded, key)
  const latest = new Map([...attempts].map(([key, entries]) => [key, entries.reduce(later)]))
  return graded.map((entry) => {
    const counted = latest.get(key(entry)) ?? entry
    if (counted === entry) return entry
    const isSame = counted.submittedAt === entry.submittedAt
    const twice: Flag = {
      kind: 'twice',
      text: `The same submission was already handed in as ${counted.file}.`,
    }
    return { ...entry, counts: false, flags: isSame ? [...entry.flags, twice] : entry.flags }
  })
}

function byLabAndLearner(a: Graded, b: Graded): number {
  return (
    a.lab - b.lab ||
    compare(a.learner, b.learner) ||
    compare(a.submittedAt, b.submittedAt) ||
    compare(a.file, b.file)
  )
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

function labSummary(entries: readonly Graded[]): LabSummary {
  const [{ lab, title, steps }] = entries as [Graded]
  const percents = entries.map(({ score, maxScore }) =>
    maxScore === 0 ? 0 : (100 * score) / maxScore,
  )
  return {
    lab,
    title,
    learners: entries.length,
    finished: entries.filter((entry) => openSteps(entry).length === 0 && entry.score > 0).length,
    meanPercent: Number(
      (percents.reduce((sum, percent) => sum + percent, 0) / entries.length).toFixed(1),
    ),
    steps: steps.map(({ id, title }, index) => ({
      number: index + 1,
      id,
      title,
      ...stepCounts(entries, id),
    })),
  }
}

function stepCounts(entries: readonly Graded[], id: string) {
  const verdicts = entries.map(({ steps }) => steps.find((step) => step.id === id)?.verdict)
  const count = (...wanted: (string | undefined)[]) =>
    verdicts.filter((verdict) => wanted.includes(verdict)).length
  const passed = count('passed')
  const failed = count('failed', 'not yet')
  return { learners: passed + failed, passed, failed, notJudged: entries.length - passed - failed }
}

const openSteps = ({ steps }: Graded) =>
  steps
    .filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable')
    .map(({ id }) => id)

const NAME_WIDTH = 24

/** One line for a submission or cluster when it has been judged. */
export function judgedLine(judged: JudgedFile, done: number, total: number): string {
  const count = `${String(done).padStart(String(total).length)}/${total}`
  if ('refused' in judged) return `${count} ! ${column(judged.file)} ${inOneLine(judged.refused)}`
  const { learner, lab, score, maxScore } = judged.graded
  const open = openSteps(judged.graded)
  const mark = open.length === 0 ? '✓' : '✗'
  const summary =
    open.length === 0 ? 'every step passed' : `open: ${shortened(open.join(', '), 80)}`
  return `${count} ${mark} ${column(learner)} lab ${lab}  ${String(score).padStart(3)}/${maxScore}  ${summary}`
}

/**
 * The summary of a class as text: failures per step, flags, refusals, and what the grades cannot
 * prove.
 */
export function classSummary({ graded, refused, labs, cannotKnow, seconds }: ClassResult): string {
  const lines: string[] = []
  for (const { lab, title, learners, finished, meanPercent, steps } of labs) {
    lines.push('', `Lab ${lab}: ${title}`)
    lines.push(
      `${learners} ${learners === 1 ? 'learner' : 'learners'}, ${finished} finished, ${meanPercent} % of the points on average`,
    )
    for (const { number, id, learners: judged, failed } of steps)
      if (failed > 0) lines.push(`  step ${number} failed for ${failed} of ${judged} (${id})`)
  }
  lines.push(...examLines(graded))
  const flagged = graded.filter(({ flags }) => flags.length > 0)
  if (flagged.length > 0) lines.push('', 'Reasons to look:')
  for (const { learner, lab, flags } of flagged)
    for (const { text } of flags) lines.push(`  ${learner}, lab ${lab}: ${inOneLine(text)}`)
  if (refused.length > 0) lines.push('', 'Refused:')
  for (const { file, reason } of refused) lines.push(`  ${inOneLine(file)}: ${inOneLine(reason)}`)
  lines.push('', 'What these grades cannot prove:', ...cannotKnow.map((text) => `  ${text}`))
  lines.push('', `${graded.length} graded, ${refused.length} refused, ${seconds.toFixed(1)} s`)
  return `${lines.join('\n')}\n`
}

/** The exams of a class, and the incidents that were not solved. */
function examLines(graded: readonly Graded[]): string[] {
  const exams = graded.flatMap(({ learner, counts, exam }) =>
    counts && exam ? [`  ${column(learner)} ${describeExam(exam)}`] : [],
  )
  if (exams.length === 0) return []
  const missed = missedIncidents(graded).filter((incident) => incident.missed > 0)
  const rows = missed.map(
    ({ id, missed, learners }) => `  ${inOneLine(id)} not solved by ${missed} of ${learners}`,
  )
  return ['', 'The exam of lab 8', ...exams, ...rows]
}

const column = (name: string) => shortened(inOneLine(name), NAME_WIDTH).padEnd(NAME_WIDTH)
