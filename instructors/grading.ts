import { basename } from 'node:path'
import type { parseArgs } from 'node:util'
import { classWord, readClassKey } from '../grading/class-key.ts'
import { labNumber } from '../grading/lab-definition.ts'
import { learnerReport } from '../grading/learner-report.ts'
import { type PublishOptions, publishReport } from '../grading/publish-report.ts'
import { ExitCode, Refusal } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { plainText, quoted } from '../host/plain-text.ts'
import { classResult, classSummary, judgedLine } from './class/class-result.ts'
import { describeExam, describeExamParts } from './class/exam-result.ts'
import { formatResult } from './class/format-report.ts'
import { FORMAT_NAMES, preparePlaces, writeResults } from './class/formats/formats.ts'
import { judgeSubmission } from './class/judge-file.ts'
import { judgeAll, liveTasks } from './class/judge-pool.ts'
import { readAssignedTasks } from './class/room-tasks.ts'
import { readSubmission, type SignatureState } from './submission/read-submission.ts'
import { SubmissionRefusal } from './submission/untrusted-text.ts'

/** Options of parseArgs that take a text. */
const texts = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, { type: 'string' }])) as Record<
    Name,
    { type: 'string' }
  >

/** Options of scripts/grade-class.ts: its usage explains them. */
export const classOptions = {
  ...texts(
    'key',
    'class',
    'tasks',
    'kubeconfigs',
    'lab',
    'limit',
    'jobs',
    'deadline',
    ...FORMAT_NAMES,
  ),
  variants: { type: 'boolean' },
  'report-only': { type: 'boolean' },
  quiet: { type: 'boolean' },
} as const

type ClassOptions = ReturnType<typeof parseArgs<{ options: typeof classOptions }>>['values']

/**
 * Options of scripts/grade.ts that matter for a submission, or that it refuses: the script's usage
 * explains them.
 */
type SubmissionOptions = PublishOptions & {
  [option in 'lab' | 'key' | 'step' | 'junit' | 'format']?: string | undefined
}

const SIGNED: Record<SignatureState, string> = {
  valid: 'signed by this learner under the key of the class',
  'not checked': 'signed; --key FILE checks the signature',
  none: 'not signed',
}

/**
 * Judges one submission again from its raw captures and prints the result; the exit code is as for
 * a cluster.
 */
export async function checkSubmission(path: string, asked: SubmissionOptions): Promise<number> {
  if (asked.output !== undefined) requireWritable(asked.output)
  const file = basename(path)
  const keyFile = asked.key ?? process.env.CLASS_KEY_FILE
  const word = process.env.CLASS ? classWord(process.env.CLASS) : undefined
  const options = { key: keyFile ? readClassKey(keyFile) : undefined, word }
  const refused = (error: unknown): never => {
    throw error instanceof SubmissionRefusal
      ? new Refusal(`${quoted(file)} is refused. ${error.message}`)
      : error
  }
  const submission = await readSubmission(path, options.key).catch(refused)
  const { learner, lab, submittedAt } = submission.manifest
  if (asked.lab !== undefined && labNumber(asked.lab) !== lab)
    throw new Refusal(`${quoted(file)} is for lab ${lab}: leave --lab out.`)
  if (asked.step !== undefined || asked.junit !== undefined)
    throw new Refusal(
      'A submission is judged as a whole: leave --step and --junit out; --format junit writes JUnit.',
    )
  const { report, judged } = await judgeSubmission(submission, file, options).catch(refused)
  const result = classResult([judged], report.seconds)
  const flags = result.graded.flatMap((graded) => graded.flags)
  const { exam } = judged.graded
  const examined = exam
    ? [`The exam: ${describeExam(exam)}`, ...describeExamParts(exam).map((line) => `  ${line}`), '']
    : []
  const head = `${learner}, lab ${lab}, handed in ${submittedAt}, ${SIGNED[submission.signature]}\n`
  const looks = flags.map(({ text }) => `A reason to look: ${plainText(text)}\n`).join('')
  const text =
    asked.json || asked.format === undefined
      ? `${head}${learnerReport(report)}${examined.join('\n')}${looks}`
      : formatResult(asked.format, result)
  return publishReport(report, text, asked)
}

/**
 * Grades the files of a class, or the running clusters of a folder of kubeconfigs; prints a line
 * for each and the summary. Returns 0 if all were graded, else 2.
 */
export async function gradeClass(files: readonly string[], options: ClassOptions): Promise<number> {
  const { kubeconfigs, key = process.env.CLASS_KEY_FILE, class: word = process.env.CLASS } = options
  const isLive = kubeconfigs !== undefined
  const tasks = isLive
    ? liveTasks(kubeconfigs, labNumber(options.lab))
    : files.map((file) => ({ file }))
  if (tasks.length === 0)
    throw new Refusal(
      'There is nothing to grade: give files, as in `grade-class.ts submissions/*.labgrade`.',
    )
  preparePlaces(options)
  const began = performance.now()
  const judged = await judgeAll(tasks, {
    key: key ? readClassKey(key) : undefined,
    word: word ? classWord(word) : undefined,
    tasks: options.tasks === undefined ? undefined : readAssignedTasks(options.tasks),
    jobs: atLeastOne(isLive ? (options.limit ?? '8') : (options.jobs ?? '2')),
    deadlineMs: 1000 * atLeastOne(options.deadline ?? (isLive ? '120' : '20')),
    onJudged: (one, done) => options.quiet || console.log(judgedLine(one, done, tasks.length)),
  })
  const result = classResult(judged, (performance.now() - began) / 1000, new Date(), options)
  writeResults(options, result)
  process.stdout.write(classSummary(result))
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  const busy = ((userCPUTime + systemCPUTime) / 1e6).toFixed(1)
  console.log(`most memory: ${Math.round(maxRSS / 1024)} MB, processor: ${busy} s`)
  return options['report-only'] ? ExitCode.passed : result.exitCode
}

function atLeastOne(value: string): number {
  const number = Number(value)
  if (Number.isInteger(number) && number >= 1) return number
  throw new Refusal(`"${value}" is not a number of jobs or seconds: use 1 or more.`)
}
