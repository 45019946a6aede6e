import { plainText, shortened } from '../../host/plain-text.ts'
import { type CopyOptions, copyFlags } from './copies.ts'
import type { Judged } from './judge-file.ts'
import type { ClassResult, Graded, LabSummary, Refused } from './result.ts'

/** Said in every report: what a grade from captures is worth, and what it is not. */
const CANNOT_KNOW: readonly string[] = [
  'Who sat at the keyboard: a learner can let somebody else, or `make solve-N`, do the work.',
  'Whether a capture is genuine: a learner is root on the cluster it came from, so an able forger can write one that passes. Flags find copies and careless forgeries; they are reasons to look and cost no points.',
  'What time it really was: every date is by the clock of the machine that the learner controls.',
  'Steps that send real requests: a capture can not answer them, so they earn and cost nothing here. Grade the live cluster to have them.',
  'What the notes about past moments are worth: they lie in the learner’s own cluster and can be edited there.',
  'A valid signature says that the holder of that learner’s key made the file, not that the work is theirs.',
]

/** Brings together what the files of a class came to: attempts, flags that the class gives rise to, and the figures per step. */
export function classResult(
  judged: readonly Judged[],
  seconds: number,
  now = new Date(),
  options: CopyOptions = {},
): ClassResult {
  const read = judged.flatMap((entry) => ('graded' in entry ? [entry] : []))
  const refused: Refused[] = judged.flatMap((entry) =>
    'refused' in entry ? [{ file: entry.file, reason: entry.refused }] : [],
  )
  const copies = copyFlags(
    read.map(({ graded, prints, seed, reuse }) => ({ learner: graded.learner, lab: graded.lab, seed, prints, reuse })),
    options,
  )
  const graded = markAttempts(
    read.map(({ graded, wordFlags = [] }, index) => ({
      ...graded,
      flags: [...(copies[index] ?? []), ...wordFlags, ...graded.flags],
    })),
  ).sort(byLabAndLearner)
  return {
    schema: 'kube-service-labs/class/v1',
    gradedAt: now.toISOString(),
    seconds: Number(seconds.toFixed(2)),
    graded,
    refused,
    labs: labSummaries(graded),
    cannotKnow: [...CANNOT_KNOW],
    exitCode: exitCodeOf(graded, refused),
  }
}

/** Of several submissions of one learner for one lab the latest counts; a tie says that a file came twice. */
function markAttempts(graded: readonly Graded[]): Graded[] {
  const latest = new Map<string, Graded>()
  const key = ({ learner, lab }: Graded) => `${lab} ${learner.toLowerCase()}`
  for (const entry of graded) {
    const other = latest.get(key(entry))
    if (!other || Date.parse(entry.submittedAt) > Date.parse(other.submittedAt)) latest.set(key(entry), entry)
  }
  return graded.map((entry) => {
    const counted = latest.get(key(entry))
    if (!counted || counted === entry) return entry
    const flags =
      counted.submittedAt === entry.submittedAt
        ? [...entry.flags, { kind: 'twice' as const, text: `The same submission came as ${counted.file} already.` }]
        : entry.flags
    return { ...entry, counts: false, flags }
  })
}

function byLabAndLearner(a: Graded, b: Graded): number {
  return (
    a.lab - b.lab || compare(a.learner, b.learner) || compare(a.submittedAt, b.submittedAt) || compare(a.file, b.file)
  )
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

function labSummaries(graded: readonly Graded[]): LabSummary[] {
  const counted = graded.filter(({ counts }) => counts)
  const numbers = [...new Set(counted.map(({ lab }) => lab))]
  return numbers.map((number) =>
    labSummary(
      number,
      counted.filter(({ lab }) => lab === number),
    ),
  )
}

function labSummary(lab: number, entries: readonly Graded[]): LabSummary {
  const [first] = entries
  const percents = entries.map(({ score, maxScore }) => (maxScore === 0 ? 0 : (100 * score) / maxScore))
  return {
    lab,
    title: first?.title ?? '',
    learners: entries.length,
    finished: entries.filter((entry) => openSteps(entry) === 0 && entry.score > 0).length,
    meanPercent: Number((percents.reduce((sum, percent) => sum + percent, 0) / entries.length).toFixed(1)),
    steps: (first?.steps ?? []).map(({ id, title }, index) => ({
      number: index + 1,
      id,
      title,
      ...stepCounts(entries, id),
    })),
  }
}

function stepCounts(entries: readonly Graded[], id: string) {
  const verdicts = entries.map(({ steps }) => steps.find((step) => step.id === id)?.verdict)
  const count = (...wanted: (string | undefined)[]) => verdicts.filter((verdict) => wanted.includes(verdict)).length
  const passed = count('passed')
  const failed = count('failed', 'not yet')
  return { learners: passed + failed, passed, failed, notJudged: entries.length - passed - failed }
}

const openSteps = ({ steps }: Graded) =>
  steps.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable').length

/** 0: all were graded, with any result; 2: a file was refused or nothing was graded. */
function exitCodeOf(graded: readonly Graded[], refused: readonly Refused[]): 0 | 2 {
  return refused.length > 0 || graded.length === 0 ? 2 : 0
}

const NAME_WIDTH = 24

/** One line for a submission or cluster that has just been judged. */
export function judgedLine(judged: Judged, done: number, total: number): string {
  const count = `${String(done).padStart(String(total).length)}/${total}`
  if ('refused' in judged) return `${count} ! ${column(judged.file)} ${plainText(judged.refused)}`
  const { learner, lab, score, maxScore, steps } = judged.graded
  const open = steps.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable').map(({ id }) => id)
  const mark = open.length === 0 ? '✓' : '✗'
  const said = open.length === 0 ? 'every step passed' : `open: ${shortened(open.join(', '), 80)}`
  return `${count} ${mark} ${column(learner)} lab ${lab}  ${String(score).padStart(3)}/${maxScore}  ${said}`
}

/** The end of a class's grading for people: per step who failed, flags, refusals, and what it can't know. */
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
  const flagged = graded.filter(({ flags }) => flags.length > 0)
  if (flagged.length > 0) lines.push('', 'Reasons to look:')
  for (const { learner, lab, flags } of flagged)
    for (const { text } of flags) lines.push(`  ${learner}, lab ${lab}: ${plainText(text)}`)
  if (refused.length > 0) lines.push('', 'Refused:')
  for (const { file, reason } of refused) lines.push(`  ${plainText(file)}: ${plainText(reason)}`)
  lines.push('', 'What these grades can not know:', ...cannotKnow.map((text) => `  ${text}`))
  lines.push('', `${graded.length} graded, ${refused.length} refused, ${seconds.toFixed(1)} s`)
  return `${lines.join('\n')}\n`
}

const column = (name: string) => shortened(plainText(name), NAME_WIDTH).padEnd(NAME_WIDTH)
