// Grades a class. See --help.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { classWord, readClassKey } from '../grading/class-key.ts'
import { labNumber } from '../grading/lab-definition.ts'
import { ExitCode, main, UserError } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { classResult, classSummary, judgedLine } from '../instructors/class/class-result.ts'
import {
  CLASS_FORMATS,
  FORMATS,
  type Format,
  isClassFormat,
  LEARNER_FORMATS,
} from '../instructors/class/formats/formats.ts'
import { judgeAll, type Task } from '../instructors/class/judge-pool.ts'
import type { ClassResult } from '../instructors/class/result.ts'

const text = { type: 'string' } as const
const options = {
  ...{ csv: text, html: text, json: text, junit: text, tap: text, gradescope: text, check50: text, classroom50: text },
  ...{ key: text, class: text, kubeconfigs: text, lab: text, limit: text, jobs: text, deadline: text },
  variants: { type: 'boolean' },
  'report-only': { type: 'boolean' },
  quiet: { type: 'boolean' },
} as const

const USAGE = `Usage: node --import tsx scripts/grade-class.ts submissions/*.labgrade [options]
       node --import tsx scripts/grade-class.ts --kubeconfigs DIR --lab 2 [--limit N] [options]

Grades the files of a class offline, or the running clusters that the kubeconfigs of a folder reach (each file named
after its learner). For that each node runs a privileged Pod: YES=1 allows it.

  --html FILE --csv FILE --json FILE --junit FILE --tap FILE      one result for the class
  --gradescope DIR --check50 DIR --classroom50 DIR                one result file per learner
  --key FILE          files must be signed with this class key (or CLASS_KEY_FILE)
  --class WORD        captures must show this word of the class (or CLASS); with a key, each learner's own word is also accepted
  --variants          each learner has a variant (LEARNER=): flag learners without one, even if few have one
  --jobs N            files judged in parallel; default 2
  --limit N           clusters graded in parallel; default 8
  --deadline SECONDS  for each file (20) or cluster (120)
  --report-only       exit 0 even if a file was refused, after the results are written
  --quiet             no line for each learner

Exit status: 0 all were graded, whatever their verdicts; 2 when a file was refused or a cluster could not be graded.
`

await main(async () => {
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const keyFile = values.key ?? process.env.CLASS_KEY_FILE
  const word = values.class ?? process.env.CLASS
  const tasks =
    values.kubeconfigs === undefined ? positionals.map((file) => ({ file })) : liveTasks(values.kubeconfigs, values.lab)
  if (tasks.length === 0)
    throw new UserError('There is nothing to grade: give files, as in `grade-class.ts submissions/*.labgrade`.')
  for (const format of FORMATS) prepare(format, values[format])
  const live = values.kubeconfigs !== undefined
  const began = performance.now()
  const judged = await judgeAll(tasks, {
    key: keyFile ? readClassKey(keyFile) : undefined,
    word: word ? classWord(word) : undefined,
    jobs: atLeastOne(live ? (values.limit ?? '8') : (values.jobs ?? '2')),
    deadlineMs: 1000 * atLeastOne(values.deadline ?? (live ? '120' : '20')),
    onJudged: (one, done) => values.quiet || console.log(judgedLine(one, done, tasks.length)),
  })
  const result = classResult(judged, (performance.now() - began) / 1000, new Date(), { variants: values.variants })
  for (const format of FORMATS) write(format, values[format], result)
  process.stdout.write(classSummary(result))
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  const busy = ((userCPUTime + systemCPUTime) / 1e6).toFixed(1)
  console.log(`most memory: ${Math.round(maxRSS / 1024)} MB, processor: ${busy} s`)
  return values['report-only'] ? ExitCode.passed : result.exitCode
}, USAGE)

/** Every regular file of a folder is a learner's kubeconfig. */
function liveTasks(folder: string, lab: string | undefined): Task[] {
  const names = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.name.startsWith('.'),
  )
  return names.map(({ name }) => ({ kubeconfig: join(folder, name), lab: labNumber(lab) }))
}

/** Creates the folders of the results and verifies that they can be written, before the long grading. */
function prepare(format: Format, place: string | undefined): void {
  if (place === undefined) return
  mkdirSync(isClassFormat(format) ? dirname(place) : place, { recursive: true })
  requireWritable(isClassFormat(format) ? place : join(place, 'learner.json'))
}

function write(format: Format, place: string | undefined, result: ClassResult): void {
  if (place === undefined) return
  if (isClassFormat(format)) {
    writeFileSync(place, CLASS_FORMATS[format](result))
    return
  }
  for (const graded of result.graded)
    if (graded.counts)
      writeFileSync(join(place, `${graded.learner}-lab${graded.lab}.json`), LEARNER_FORMATS[format](graded))
}

function atLeastOne(value: string): number {
  const number = Number(value)
  if (Number.isInteger(number) && number >= 1) return number
  throw new UserError(`"${value}" is not a number of jobs or seconds: use 1 or more.`)
}
