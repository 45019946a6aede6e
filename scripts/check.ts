// Grades a capture or a submission, or without one the running cluster. See --help.
import { statSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { shownHints } from '../course/hints.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { clusterName } from '../host/layout.ts'
import { main, Refusal } from '../host/main.ts'
import { FORMAT_NAMES } from '../instructors/class/formats/formats.ts'
import { checkSubmission, gradeAndPrint, gradingOptions } from '../instructors/grading.ts'
import { quoted } from '../instructors/submission/untrusted-text.ts'
import { mayBeInRoom } from '../room/learner/member.ts'

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
  --format NAME       another result file: ${FORMAT_NAMES.join(', ')}
  --output FILE       the file to write; default: standard output
  --junit FILE        additional JUnit XML file
  --report-only       exit 0 for every verdict, after the result is written

Exit status: 0 every step passed, 1 not yet, 2 could not be checked.
`

await main(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      ...gradingOptions,
      lab: { type: 'string' },
      capture: { type: 'string' },
      key: { type: 'string' },
    },
  })
  const { capture } = values
  const [lab, superfluous] = [...(values.lab === undefined ? [] : [values.lab]), ...positionals]
  if (superfluous !== undefined)
    throw new Refusal(`${quoted(superfluous)} is one argument too many: --help lists the options.`)
  const found = capture !== undefined && statSync(capture, { throwIfNoEntry: false })
  if (capture !== undefined && found === undefined && lab === undefined)
    throw new Refusal(
      `${quoted(capture)} does not exist: give a folder that \`make capture\` wrote, or a file that \`make submit\` wrote.`,
    )
  if (capture !== undefined && found && !found.isDirectory())
    return checkSubmission(capture, { ...values, lab })
  const number = labNumber(lab)
  if (capture !== undefined || !mayBeInRoom()) return gradeAndPrint(number, values)
  // Most checks tell no room.
  const { LearnerSeat } = await import('../room/learner/seat.ts')
  const seat = LearnerSeat.open()
  const code = await gradeAndPrint(number, values, (report) =>
    seat.reported(readLab(number), report, shownHints(number, clusterName())),
  )
  await seat.end()
  return code
}, USAGE)
