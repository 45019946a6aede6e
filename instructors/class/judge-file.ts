import { basename } from 'node:path'
import type { Capture } from '../../cluster/capture-folder.ts'
import type { LabSpec } from '../../grading/check-context.ts'
import { expectedWords, wordState } from '../../grading/class-key.ts'
import { loadSpec } from '../../grading/grader.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import type { Report, ReportedFinding } from '../../grading/report-schema.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import { type ReadOptions, readSubmission, type Submission } from '../submission/read-submission.ts'
import { reportSubmission } from '../submission/rejudge.ts'
import { Refusal } from '../submission/untrusted-text.ts'
import { type Prints, printsOf } from './copies.ts'
import { historyFlags } from './history.ts'
import type { Flag, Graded } from './result.ts'

const NAMES_SHOWN = 4

export interface JudgeOptions extends ReadOptions {
  /** The word of the class; with the class's key, each learner's own word is also valid. */
  word?: string | undefined
  /** Milliseconds since the epoch, for tests. */
  now?: number
}

/** One flag for captures without the word of the class, one for captures with another word; none if the class has no word. */
export function wordFlags(
  captures: Iterable<readonly [id: string, { capture: Capture }]>,
  learner: string,
  { key, word }: JudgeOptions,
): Flag[] {
  const words = expectedWords(word, key, learner)
  if (words.length === 0) return []
  const states = [...captures].map(([id, { capture }]) => ({ id, state: wordState(capture, words) }))
  const flag = (wanted: 'missing' | 'other', what: string): Flag[] => {
    const ids = states.filter(({ state }) => state === wanted).map(({ id }) => id)
    if (ids.length === 0) return []
    const more = ids.length > NAMES_SHOWN ? ` and ${ids.length - NAMES_SHOWN} more` : ''
    const some = `Its captures ${ids.slice(0, NAMES_SHOWN).join(', ')}${more}`
    return [{ kind: 'class', text: `${ids.length === states.length ? 'All its captures' : some} ${what}.` }]
  }
  return [
    ...flag('missing', 'lack the word of this class'),
    ...flag('other', 'have another word than that of this class'),
  ]
}

/** The result of one file: graded, with the values for the comparison of the class; or refused with one sentence. */
export type Judged = { file: string; graded: Graded; seed: string; prints: Prints } | { file: string; refused: string }

/** Maximum length of texts of findings in a class's reports, which keeps pages readable and memory bounded. */
const TEXT = 300

/** A learner's text for reports: no control characters, bounded length. */
export const cleanText = (text: string) => shortened(plainText(text), TEXT)

const specs = new Map<number, Promise<LabSpec>>()

/** Reads one submission and judges it again. Never throws: errors of the file are in the result. */
export async function judgeFile(path: string, options: JudgeOptions = {}): Promise<Judged> {
  const file = cleanText(basename(path))
  try {
    return (await judgeSubmission(await readSubmission(path, options), file, options)).judged
  } catch (error) {
    return { file, refused: refusalOf(error, 'The grader could not judge it') }
  }
}

/** The sentence for a file or cluster that could not be graded. */
export function refusalOf(error: unknown, what: string): string {
  if (error instanceof Refusal) return error.message
  const reason = (error instanceof Error ? error.message : String(error)).split('\n')[0]
  return `${what} (${cleanText(reason ?? '')}).`
}

/** Judges a submission that was read. Throws Refusal if its lab does not exist. */
export async function judgeSubmission(submission: Submission, file: string, options: JudgeOptions) {
  const { manifest, signature, captures } = submission
  const { learner, lab, seed, submittedAt, cluster, versions, answers } = manifest
  const report = await reportSubmission(await specOf(lab), submission, file)
  const claims = new Map(manifest.steps.map(({ id, verdict }) => [id, verdict]))
  const graded = gradedReport(report, { learner, file })
  const flags = [
    ...wordFlags(captures, learner, options),
    ...ownFlags(submission, file, report),
    ...historyFlags(submission, options.now ?? Date.now()),
  ]
  const own: Graded = {
    ...graded,
    submittedAt,
    signature,
    cluster: { driver: cleanText(cluster.driver), identity: cluster.identity },
    versions: versions.kernel ? { ...graded.versions, kernel: cleanText(versions.kernel) } : graded.versions,
    steps: graded.steps.map((step) => {
      const claimed = claims.get(step.id)
      return claimed ? { ...step, claimed } : step
    }),
    answers: answers.map(({ question, answer }) => ({ question: cleanText(question), answer: plainText(answer) })),
    flags,
  }
  const judged: Judged = { file, graded: own, seed, prints: printsOf([...captures.values()]) }
  return { report, judged }
}

function specOf(lab: number): Promise<LabSpec> {
  const numbers = listLabs().map(({ number }) => number)
  if (!numbers.includes(lab))
    throw new Refusal(`It is for lab ${lab}, which does not exist: the labs are ${numbers.join(', ')}.`)
  const spec = specs.get(lab) ?? loadSpec(readLab(lab))
  specs.set(lab, spec)
  return spec
}

/** One report in the form of a class's results: of a capture folder or of a running cluster, without further data. */
export function gradedReport(report: Report, { learner, file }: { learner: string; file: string }): Graded {
  const { lab, title, score, maxScore, gradedAt, steps, source, versions } = report
  return cleaned({
    file,
    learner,
    lab,
    title,
    submittedAt: gradedAt,
    counts: true,
    signature: source.kind === 'cluster' ? 'live' : 'none',
    cluster: { driver: source.kind === 'cluster' ? source.driver : '', identity: '' },
    versions: { kubeProxy: versions.kubeProxy, mode: versions.mode },
    score,
    maxScore,
    steps: steps.map(({ id, title, verdict, points, maxPoints, reason, finding }) => {
      return { id, title, verdict, points, maxPoints, reason, finding: finding && forInstructors(finding) }
    }),
    answers: [],
    flags: [],
  })
}

/** A finding without the lines that only its learner needs. */
const forInstructors = ({ node, look, expected, actual, why, hint }: ReportedFinding) => {
  return { node, look, expected, actual, why, hint }
}

/** The same with clean texts, and without fields that are undefined. */
const cleaned = (graded: Graded): Graded =>
  JSON.parse(JSON.stringify(graded), (_key, value) => (typeof value === 'string' ? cleanText(value) : value))

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
