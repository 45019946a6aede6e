// Grades a lab on the running cluster:  grade.ts 2.  Or a capture or a submission. See --help.
//
// A check of a learner goes to grading/ and no further: instructors/ and room/ are loaded by the
// options and files that need them.
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { grade } from '../grading/grader.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { learnerReport } from '../grading/learner-report.ts'
import { publishReport } from '../grading/publish-report.ts'
import type { Report, Source } from '../grading/report-schema.ts'
import { clusterName, roomMemberFile } from '../host/layout.ts'
import { main, Refusal } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { quoted } from '../host/plain-text.ts'

const USAGE = `Usage: node --import tsx scripts/grade.ts LAB [options]
       node --import tsx scripts/check.ts --capture alice-lab2.labgrade [options]
       node --import tsx scripts/check.ts --lab 2 --capture DIR [options]

Grades a lab on the running cluster (NAME= and CLUSTER= select it), or a recorded cluster in the same way; a submission by its raw
captures, not by its verdicts.

  --capture PLACE     a folder that make capture wrote, or a learner's .labgrade file
  --lab N             the lab; a submission contains it
  --step STEP         only this step, by its id or number
  --key FILE          the class key that the submission must be signed with (or CLASS_KEY_FILE)
  --json              the report as JSON (instructors/schema/report.v1.json)
  --format NAME       another result file: csv, html, json, junit, tap, check50, classroom50, gradescope
  --output FILE       the file to write; default: standard output
  --junit FILE        additional JUnit XML file
  --report-only       exit 0 for every verdict, after the result is written

Exit status: 0 every step passed, 1 not yet, 2 could not be checked.
`

const value = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const OPTIONS = {
  lab: value,
  step: value,
  capture: value,
  key: value,
  format: value,
  output: value,
  junit: value,
  json: flag,
  'report-only': flag,
} as const

type GradingOptions = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values']

await main(async () => {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: OPTIONS })
  const { capture } = values
  const [lab, superfluous] = [...(values.lab === undefined ? [] : [values.lab]), ...positionals]
  if (superfluous !== undefined)
    throw new Refusal(`${quoted(superfluous)} is one argument too many: --help lists the options.`)
  const found = capture !== undefined && statSync(capture, { throwIfNoEntry: false })
  if (capture !== undefined && found === undefined && lab === undefined)
    throw new Refusal(
      `${quoted(capture)} does not exist: give a folder that \`make capture\` wrote, or a file that \`make submit\` wrote.`,
    )
  if (capture !== undefined && found && !found.isDirectory()) {
    const { checkSubmission } = await import('../instructors/grading.ts')
    return checkSubmission(capture, { ...values, lab })
  }
  return gradeAndPrint(labNumber(lab), values)
}, USAGE)

/** Grades, prints the report as requested, and returns the exit code. */
async function gradeAndPrint(lab: number, options: GradingOptions): Promise<number> {
  const { step, capture, format, junit, output } = options
  for (const file of [output, junit]) if (file !== undefined) requireWritable(file)
  const source = await sourceOf(capture)
  const seat = capture === undefined ? await openSeat(lab) : undefined
  const report = await grade({ lab, step, source })
  seat?.reported(report)
  if (junit !== undefined) writeFileSync(junit, await formatted('junit', report))
  const isText = options.json || format === undefined
  const text = isText ? learnerReport(report) : await formatted(format, report)
  const code = publishReport(report, text, options)
  await seat?.end()
  return code
}

async function sourceOf(capture: string | undefined): Promise<Source> {
  if (capture !== undefined) return { kind: 'capture', folder: capture }
  const { selectCluster } = await import('../cluster/select.ts')
  const { driver, name } = await selectCluster()
  return { kind: 'cluster', driver, name }
}

/** The formats of class results, which most checks do not need. */
async function formatted(format: string, report: Report): Promise<string> {
  const { formatReport } = await import('../instructors/class/format-report.ts')
  return formatReport(format, report)
}

/** The learner's place in a room; absent if this command has to do with none. */
async function openSeat(lab: number) {
  if (!process.env.ROOM && !existsSync(roomMemberFile())) return undefined
  const { LearnerSeat } = await import('../room/learner/seat.ts')
  const { shownHints } = await import('../course/hints.ts')
  const seat = LearnerSeat.open()
  return {
    reported: (report: Report) =>
      seat.reported(readLab(lab), report, shownHints(lab, clusterName())),
    end: () => seat.end(),
  }
}
