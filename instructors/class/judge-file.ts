import { basename } from 'node:path'
import type { Capture } from '../../cluster/capture-folder.ts'
import { type ClassKey, expectedWords, wordState } from '../../grading/class-key.ts'
import type { Report } from '../../grading/report-schema.ts'
import { reasonOf } from '../../host/main.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import type { Manifest } from '../submission/manifest.ts'
import { readSubmission, type Submission } from '../submission/read-submission.ts'
import { reportSubmission } from '../submission/rejudge.ts'
import { SubmissionRefusal } from '../submission/untrusted-text.ts'
import { type Compared, listed, printsOf } from './copies.ts'
import { examInSubmission } from './exam-result.ts'
import { type Flag, type Graded, gradedSchema } from './result.ts'
import { type AssignedTask, taskFlags } from './room-tasks.ts'

const CAPTURES_SHOWN = 4

export interface JudgeFileOptions {
  /** The key of the class, with which submissions must be signed. */
  key?: ClassKey | undefined
  /** The word of the class; with the class's key, each learner's own word is also valid. */
  word?: string | undefined
  /** The tasks that the room of the class has given. */
  tasks?: readonly AssignedTask[] | undefined
}

/**
 * One flag for captures without the word of the class, one for captures with another word; none if
 * the class has no word.
 */
export function wordFlags(
  captures: Iterable<readonly [id: string, { capture: Capture }]>,
  learner: string,
  { key, word }: JudgeFileOptions,
): Flag[] {
  const expected = expectedWords(word, key, learner)
  if (expected.length === 0) return []
  const states = [...captures].map(([id, { capture }]) => ({
    id,
    state: wordState(capture, expected),
  }))
  const flag = (wanted: 'missing' | 'other', what: string): Flag[] => {
    const ids = states.filter(({ state }) => state === wanted).map(({ id }) => id)
    if (ids.length === 0) return []
    const which =
      ids.length === states.length
        ? 'All its captures'
        : `Its captures ${listed(ids, CAPTURES_SHOWN)}`
    return [{ kind: 'class', text: `${which} ${what}.` }]
  }
  return [
    ...flag('missing', 'lack the word of this class'),
    ...flag('other', 'have another word than that of this class'),
  ]
}

/**
 * The result of one file: graded, with the values for the comparison of the class; or refused with
 * one sentence.
 */
export type JudgedFile = { file: string } & (Compared | { refused: string })

/**
 * Maximum length of texts of findings in a class's reports, which keeps pages readable and memory
 * bounded.
 */
const TEXT = 300

/** A learner's text for reports: no control characters, bounded length. */
export const cleanText = (text: string) => shortened(plainText(text), TEXT)

/** Reads one submission and judges it again. Never throws: errors of the file are in the result. */
export async function judgeFile(path: string, options: JudgeFileOptions = {}): Promise<JudgedFile> {
  const file = cleanText(basename(path))
  try {
    return (await judgeSubmission(await readSubmission(path, options.key), file, options)).judged
  } catch (error) {
    return { file, refused: notGradedBecause(error, 'The grader could not judge it') }
  }
}

/** The sentence for a file or cluster that could not be graded. */
export function notGradedBecause(error: unknown, what: string): string {
  return error instanceof SubmissionRefusal
    ? error.message
    : `${what} (${cleanText(reasonOf(error))}).`
}

/** Judges a submission that was read. Throws Refusal if its lab does not exist. */
export async function judgeSubmission(
  submission: Submission,
  file: string,
  options: JudgeFileOptions,
) {
  const { manifest, signature, captures } = submission
  const { learner, seed, submittedAt, cluster, answers } = manifest
  const report = await reportSubmission(submission, file)
  const claims = new Map(manifest.steps.map(({ id, verdict }) => [id, verdict]))
  const steps = report.steps.map((step) => ({ ...step, claimed: claims.get(step.id) }))
  const versions = { ...report.versions, kernel: manifest.versions.kernel || undefined }
  const graded = gradedReport(
    { ...report, steps, versions },
    { file, learner, submittedAt, signature, cluster, exam: examInSubmission(submission) },
  )
  graded.answers = answers.map(({ question, answer }) => ({
    question: cleanText(question),
    answer: plainText(answer),
  }))
  graded.flags = [
    ...wordFlags(captures, learner, options),
    ...taskFlags(captures, manifest, options.tasks ?? []),
    ...ownFlags(manifest, graded),
  ]
  return { report, judged: { file, graded, seed, prints: printsOf([...captures.values()]) } }
}

/**
 * One report in the form of a class's results, with clean texts: of a capture folder or of a
 * running cluster, without further data.
 */
export function gradedReport(
  report: Report,
  own: Pick<Graded, 'file' | 'learner'> & Partial<Graded>,
): Graded {
  const { source, gradedAt: submittedAt } = report
  const [signature, driver] = source.kind === 'cluster' ? ['live', source.driver] : ['none', '']
  const about = {
    submittedAt,
    counts: true,
    signature,
    cluster: { driver, identity: '' },
    answers: [],
    flags: [],
  }
  const graded = gradedSchema.parse({ ...report, ...about, ...own })
  return JSON.parse(JSON.stringify(graded), (_key, value) =>
    typeof value === 'string' ? cleanText(value) : value,
  )
}

/** Claims of a submission that its captures do not confirm. */
function ownFlags({ learner }: Manifest, { file, steps }: Graded): Flag[] {
  const flags: Flag[] = []
  const untrue = steps.filter(
    ({ verdict, claimed }) =>
      claimed === 'passed' && (verdict === 'failed' || verdict === 'not yet'),
  )
  if (untrue.length > 0) {
    const names = untrue.map(({ id }) => id).join(', ')
    flags.push({
      kind: 'claims',
      text: `It claims that ${names} passed; its captures do not show it.`,
    })
  }
  const [, named] = /^([A-Za-z0-9._-]+)-lab\d+\.labgrade$/.exec(file) ?? []
  if (named !== undefined && named.toLowerCase() !== learner.toLowerCase())
    flags.push({
      kind: 'name',
      text: `The file is named for ${named}, but its content is for ${learner}.`,
    })
  return flags
}
