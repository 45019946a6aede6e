// Grades a lab on the running cluster. See --help.
import { parseArgs } from 'node:util'
import { labNumber } from '../grading/lab-definition.ts'
import { main } from '../host/main.ts'
import { FORMATS } from '../instructors/class/formats/formats.ts'
import { gradeAndPrint, gradingOptions } from '../instructors/grading.ts'

const USAGE = `Usage: node --import tsx scripts/grade.ts LAB [--step ID] [--json | --format NAME] [--output FILE] [--report-only]

Grades a lab on the running cluster (NAME= and CLUSTER= select it).

  --step ID           only this step
  --json              the report as JSON (instructors/schema/report.v1.json)
  --format NAME       another result file: ${FORMATS.join(', ')}
  --output FILE       the file to write; default: standard output
  --junit FILE        additional JUnit XML file
  --report-only       exit 0 for every verdict, after the result is written

Exit status: 0 every step passed, 1 not yet, 2 could not be checked.
`

await main(async () => {
  const { values, positionals } = parseArgs({ options: gradingOptions, allowPositionals: true })
  return gradeAndPrint({ ...values, lab: labNumber(positionals[0]) })
}, USAGE)
