// Grades a class. See --help.
import { parseArgs } from 'node:util'
import { classWord, readClassKey } from '../grading/class-key.ts'
import { labNumber } from '../grading/lab-definition.ts'
import { ExitCode, main, UserError } from '../host/main.ts'
import { classResult, classSummary, judgedLine } from '../instructors/class/class-result.ts'
import { preparePlaces, writeResults } from '../instructors/class/formats/formats.ts'
import { judgeAll, liveTasks } from '../instructors/class/judge-pool.ts'

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
  const { kubeconfigs, key = process.env.CLASS_KEY_FILE, class: word = process.env.CLASS } = values
  const isLive = kubeconfigs !== undefined
  const tasks = isLive ? liveTasks(kubeconfigs, labNumber(values.lab)) : positionals.map((file) => ({ file }))
  if (tasks.length === 0)
    throw new UserError('There is nothing to grade: give files, as in `grade-class.ts submissions/*.labgrade`.')
  preparePlaces(values)
  const began = performance.now()
  const judged = await judgeAll(tasks, {
    key: key ? readClassKey(key) : undefined,
    word: word ? classWord(word) : undefined,
    jobs: atLeastOne(isLive ? (values.limit ?? '8') : (values.jobs ?? '2')),
    deadlineMs: 1000 * atLeastOne(values.deadline ?? (isLive ? '120' : '20')),
    onJudged: (one, done) => values.quiet || console.log(judgedLine(one, done, tasks.length)),
  })
  const result = classResult(judged, (performance.now() - began) / 1000, new Date(), { variants: values.variants })
  writeResults(values, result)
  process.stdout.write(classSummary(result))
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  const busy = ((userCPUTime + systemCPUTime) / 1e6).toFixed(1)
  console.log(`most memory: ${Math.round(maxRSS / 1024)} MB, processor: ${busy} s`)
  return values['report-only'] ? ExitCode.passed : result.exitCode
}, USAGE)

function atLeastOne(value: string): number {
  const number = Number(value)
  if (Number.isInteger(number) && number >= 1) return number
  throw new UserError(`"${value}" is not a number of jobs or seconds: use 1 or more.`)
}
