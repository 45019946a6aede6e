import { writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import type { parseArgs } from 'node:util'
import { selectCluster } from '../cluster/select.ts'
import { classWord, readClassKey, seedOf } from '../grading/class-key.ts'
import { grade } from '../grading/grader.ts'
import { labNumber } from '../grading/lab-definition.ts'
import { learnerReport } from '../grading/learner-report.ts'
import type { Report, Source } from '../grading/report-schema.ts'
import { ExitCode, Refusal } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { plainJson, plainText } from '../host/plain-text.ts'
import { classResult, classSummary, judgedLine } from './class/class-result.ts'
import { printsOf } from './class/copies.ts'
import { FORMAT_NAMES, preparePlaces, writeResults, writerOf } from './class/formats/formats.ts'
import { gradedReport, judgeSubmission } from './class/judge-file.ts'
import { judgeAll, liveTasks } from './class/judge-pool.ts'
import type { ClassResult } from './class/result.ts'
import { readGivenTasks } from './class/room-tasks.ts'
import { readSubmission, type SignatureState } from './submission/read-submission.ts'
import { quoted, SubmissionRefusal } from './submission/untrusted-text.ts'

/** Options of parseArgs that take a text. */
const texts = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, { type: 'string' }])) as Record<
    Name,
    { type: 'string' }
  >

/** Options that both grading scripts take: their usage explains them. */
export const gradingOptions = {
  ...texts('step', 'junit', 'format', 'output'),
  json: { type: 'boolean' },
  'report-only': { type: 'boolean' },
} as const

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

type GradingOptions = ReturnType<typeof parseArgs<{ options: typeof gradingOptions }>>['values']

type ClassOptions = ReturnType<typeof parseArgs<{ options: typeof classOptions }>>['values']

/** Grades, prints the report as text or JSON, and returns the exit code: 0 passed, 1 open, 2 could not be checked. */
export async function gradeAndPrint(
  lab: number,
  wish: GradingOptions & { capture?: string | undefined },
  onReport?: (report: Report) => unknown,
): Promise<number> {
  const { step, capture, junit, output } = wish
  for (const file of [output, junit]) if (file !== undefined) requireWritable(file)
  const report = await grade({ lab, step, source: await sourceOf(capture) })
  await onReport?.(report)
  const learner = process.env.LEARNER || 'learner'
  const file = capture === undefined ? 'the cluster' : basename(capture)
  const graded = gradedReport(report, { learner, file })
  const result = classResult(
    [{ file, graded, seed: seedOf(learner), prints: printsOf([]) }],
    report.seconds,
  )
  if (junit !== undefined) writeFileSync(junit, formatted('junit', result))
  return publish(report, result, wish, learnerReport(report))
}

const SIGNED: Record<SignatureState, string> = {
  valid: 'signed by this learner under the key of the class',
  'not checked': 'signed; --key FILE checks the signature',
  none: 'not signed',
}

/** Judges one submission again from its raw captures and prints the result; the exit code is as for a cluster. */
export async function checkSubmission(
  path: string,
  wish: GradingOptions & { lab?: string | undefined; key?: string | undefined },
): Promise<number> {
  if (wish.output !== undefined) requireWritable(wish.output)
  const file = basename(path)
  const keyFile = wish.key ?? process.env.CLASS_KEY_FILE
  const word = process.env.CLASS ? classWord(process.env.CLASS) : undefined
  const options = { key: keyFile ? readClassKey(keyFile) : undefined, word }
  const refused = (error: unknown): never => {
    throw error instanceof SubmissionRefusal
      ? new Refusal(`${quoted(file)} is refused. ${error.message}`)
      : error
  }
  const submission = await readSubmission(path, options.key).catch(refused)
  const { learner, lab, submittedAt } = submission.manifest
  if (wish.lab !== undefined && labNumber(wish.lab) !== lab)
    throw new Refusal(`${quoted(file)} is for lab ${lab}: leave --lab out.`)
  if (wish.step !== undefined || wish.junit !== undefined)
    throw new Refusal(
      'A submission is judged as a whole: leave --step and --junit out; --format junit writes JUnit.',
    )
  const { report, judged } = await judgeSubmission(submission, file, options).catch(refused)
  const result = classResult([judged], report.seconds)
  const flags = result.graded.flatMap((graded) => graded.flags)
  const head = `${learner}, lab ${lab}, handed in ${submittedAt}, ${SIGNED[submission.signature]}\n`
  const looks = flags.map(({ text }) => `A reason to look: ${plainText(text)}\n`).join('')
  return publish(report, result, wish, `${head}${learnerReport(report)}${looks}`)
}

/**
 * Grades the files of a class, or the running clusters of a folder of kubeconfigs; prints a line for each and the summary.
 * Returns 0 if all were graded, else 2.
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
    tasks: options.tasks === undefined ? undefined : readGivenTasks(options.tasks),
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

/** Writes a report as requested and returns the exit code. */
function publish(
  report: Report,
  result: ClassResult,
  { json, format, output, 'report-only': reportOnly }: GradingOptions,
  text: string,
): number {
  const written = json
    ? `${plainJson(report)}\n`
    : format === undefined
      ? text
      : formatted(format, result)
  if (output === undefined) process.stdout.write(written)
  else writeFileSync(output, written)
  return reportOnly ? ExitCode.passed : report.exitCode
}

function formatted(format: string, result: ClassResult): string {
  const writer = writerOf(format)
  return 'ofClass' in writer ? writer.ofClass(result) : result.graded.map(writer.ofLearner).join('')
}

async function sourceOf(capture: string | undefined): Promise<Source> {
  if (capture !== undefined) return { kind: 'capture', folder: capture }
  const { driver, name } = await selectCluster()
  return { kind: 'cluster', driver, name }
}
