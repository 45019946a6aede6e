import { basename } from 'node:path'
import type { Capture } from '../../cluster/capture-folder.ts'
import { birthMarks } from '../../grading/api-object.ts'
import type { LabSpec } from '../../grading/check-context.ts'
import { type ClassKey, expectedWords, wordState } from '../../grading/class-key.ts'
import { loadSpec } from '../../grading/grader.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import type { Report, StepReport } from '../../grading/report-schema.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import { type ReadOptions, readSubmission, type Submission } from '../submission/read-submission.ts'
import { reportSubmission } from '../submission/rejudge.ts'
import { Refusal } from '../submission/untrusted-text.ts'
import { type Prints, printsOf, valuesOfSubmission } from './copies.ts'
import { historyFlags } from './history.ts'
import { type Reuse, reuseOfPublished } from './published.ts'
import type { Flag, Graded, GradedStep } from './result.ts'

const NAMES_SHOWN = 4

export interface ClassSecrets {
  key?: ClassKey | undefined
  word?: string | undefined
}

/** Flags for captures that do not show the word of the class; none if the class has no word. */
function classWordFlags({ manifest, captures }: Submission, { key, word }: ClassSecrets): Flag[] {
  const words = expectedWords(word, key, manifest.learner)
  if (words.length === 0) return []
  return wordFlags(
    [...captures].map(([id, { capture }]) => ({ id, capture })),
    words,
  )
}

/** One flag for captures without a word, one for captures with another word. */
export function wordFlags(captures: readonly { id: string; capture: Capture }[], words: readonly string[]): Flag[] {
  const states = captures.map(({ id, capture }) => ({ id, state: wordState(capture, words) }))
  const flag = (wanted: 'missing' | 'other', what: string): Flag[] => {
    const ids = states.filter(({ state }) => state === wanted).map(({ id }) => id)
    if (ids.length === 0) return []
    const which = ids.length === captures.length ? 'All its captures' : `Its captures ${listed(ids)}`
    return [{ kind: 'class', text: `${which} ${what}.` }]
  }
  return [
    ...flag('missing', 'lack the word of this class'),
    ...flag('other', 'have another word than that of this class'),
  ]
}

const listed = (ids: readonly string[]) =>
  `${ids.slice(0, NAMES_SHOWN).join(', ')}${ids.length > NAMES_SHOWN ? ` and ${ids.length - NAMES_SHOWN} more` : ''}`

/** Allowed difference between the clocks of one machine and its cluster, and of different machines. */
const SKEW_MS = 10_000
const FUTURE_MS = 15 * 60_000

/** Dates of one submission that can't all be true. At most one flag of each kind: the first that is found. */
function clockFlags({ manifest, captures }: Submission, now: number): Flag[] {
  const submittedAt = Date.parse(manifest.submittedAt)
  const ordered = [...captures].toSorted(([, a], [, b]) => a.takenAt - b.takenAt)
  const found = new Map<string, string>()
  const say = (kind: string, text: string) => found.has(kind) || found.set(kind, text)
  if (submittedAt > now + FUTURE_MS) say('future', `It is dated ${manifest.submittedAt}, which is in the future.`)
  let version = 0
  let before = ''
  for (const [id, submitted] of ordered) {
    const { takenAt } = submitted
    if (takenAt > submittedAt + SKEW_MS) say('late', `The capture "${id}" is dated after the submission itself.`)
    if (!submitted.wasRead) continue
    let newest = 0
    let highest = 0
    for (const { createdAt, resourceVersion } of birthMarks(submitted.capture.objects.items)) {
      newest = Math.max(newest, createdAt)
      highest = Math.max(highest, resourceVersion)
    }
    if (newest > takenAt + SKEW_MS) say('early', `The capture "${id}" is dated before objects in it were made.`)
    // An API server counts its changes: a later capture can't have a much smaller count than an earlier one.
    if (highest < version * 0.5)
      say('order', `The capture "${id}" is dated after "${before}", but its cluster had seen fewer changes by then.`)
    if (highest > version) {
      version = highest
      before = id
    }
  }
  return [...found.values()].map((text) => ({ kind: 'clock', text }))
}

/** The result of one file: graded, with the values for the comparison of the class; or refused with one sentence. */
export type Judged =
  | { file: string; graded: Graded; seed: string; prints: Prints; reuse?: Reuse | undefined; wordFlags?: Flag[] }
  | { file: string; refused: string }

export interface JudgeOptions extends ReadOptions {
  /** The word of the class; with the class's key, each learner's own word is also valid. */
  word?: string | undefined
  /** Milliseconds since the epoch, for tests. */
  now?: number
}

/** Maximum length of texts of findings in a class's reports, which keeps pages readable and memory bounded. */
const TEXT = 300

/** A learner's text for reports: no control characters, bounded length. */
const clean = (text: string) => shortened(plainText(text), TEXT)

/** The same for every text of a record; fields without one are left out. */
function cleanTexts<Texts extends Record<string, string | undefined>>(texts: Texts): Texts {
  const given = Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return Object.fromEntries(given.map(([name, text]) => [name, clean(text)])) as Texts
}

const specs = new Map<number, Promise<LabSpec>>()

/** Reads one submission and judges it again. Never throws: errors of the file are in the result. */
export async function judgeFile(path: string, options: JudgeOptions = {}): Promise<Judged> {
  const file = clean(basename(path))
  try {
    const submission = await readSubmission(path, options)
    const spec = await specOf(submission.manifest.lab)
    const report = await reportSubmission(spec, submission, file)
    const flags = [
      ...ownFlags(submission, file, report),
      ...clockFlags(submission, options.now ?? Date.now()),
      ...historyFlags(submission),
    ]
    const drawn = valuesOfSubmission(submission)
    return {
      file,
      graded: { ...gradedOf(submission, file, report), flags },
      seed: submission.manifest.seed,
      prints: printsOf(submission, drawn),
      reuse: reuseOfPublished(drawn),
      wordFlags: classWordFlags(submission, options),
    }
  } catch (error) {
    if (error instanceof Refusal) return { file, refused: error.message }
    const reason = (error instanceof Error ? error.message : String(error)).split('\n')[0]
    return { file, refused: `The grader could not judge it (${clean(reason ?? '')}).` }
  }
}

function specOf(lab: number): Promise<LabSpec> {
  const known = specs.get(lab)
  if (known) return known
  const numbers = listLabs().map(({ number }) => number)
  if (!numbers.includes(lab))
    throw new Refusal(`It is for lab ${lab}, which does not exist: the labs are ${numbers.join(', ')}.`)
  const spec = loadSpec(readLab(lab))
  specs.set(lab, spec)
  return spec
}

function gradedOf({ manifest, signature }: Submission, file: string, report: Report): Omit<Graded, 'flags'> {
  const { learner, submittedAt, cluster, answers, versions } = manifest
  const claims = new Map(manifest.steps.map(({ id, verdict }) => [id, verdict]))
  const graded = gradedReport(report, { learner, file })
  return {
    ...graded,
    submittedAt,
    signature,
    cluster: { driver: clean(cluster.driver), identity: cluster.identity },
    versions: { ...graded.versions, ...cleanTexts({ kernel: versions.kernel }) },
    steps: graded.steps.map((step) => {
      const claimed = claims.get(step.id)
      return claimed === undefined ? step : { ...step, claimed }
    }),
    answers: answers.map(({ question, answer }) => ({ question: clean(question), answer: plainText(answer) })),
  }
}

/** One report in the form of a class's results: of a capture folder or of a running cluster, without further data. */
export function gradedReport(report: Report, { learner, file }: { learner: string; file: string }): Graded {
  const { lab, title, score, maxScore, gradedAt, steps, source } = report
  const { kubeProxy, mode } = report.versions
  return {
    file,
    learner,
    lab,
    title,
    submittedAt: gradedAt,
    counts: true,
    signature: source.kind === 'cluster' ? 'live' : 'none',
    cluster: { driver: source.kind === 'cluster' ? source.driver : '', identity: '' },
    versions: cleanTexts({ kubeProxy, mode }),
    score,
    maxScore,
    steps: steps.map(gradedStep),
    answers: [],
    flags: [],
  }
}

/** A step of a report without the lines that only its learner needs. */
function gradedStep({ id, title, verdict, points, maxPoints, reason, finding }: StepReport): GradedStep {
  const step = { id, title, verdict, points, maxPoints, ...cleanTexts({ reason }) }
  if (!finding) return step
  const { node, look, expected, actual, why, hint } = finding
  return { ...step, finding: cleanTexts({ node, look, expected, actual, why, hint }) }
}

/** Claims of a submission that its captures do not confirm. */
function ownFlags({ manifest }: Submission, file: string, { steps }: Report): Flag[] {
  const flags: Flag[] = []
  const claimed = new Map(manifest.steps.map(({ id, verdict }) => [id, verdict]))
  const untrue = steps.filter(
    ({ id, verdict }) => claimed.get(id) === 'passed' && (verdict === 'failed' || verdict === 'not yet'),
  )
  if (untrue.length > 0) {
    const names = untrue.map(({ id }) => id).join(', ')
    flags.push({ kind: 'claims', text: `It claims that ${names} passed; its captures do not show it.` })
  }
  const [, named] = /^([A-Za-z0-9._-]+)-lab\d+\.labgrade$/.exec(file) ?? []
  if (named !== undefined && named.toLowerCase() !== manifest.learner.toLowerCase())
    flags.push({ kind: 'name', text: `The file is named for ${named}, but its content is for ${manifest.learner}.` })
  return flags
}
