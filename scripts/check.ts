// Offline grading:  check.ts --capture alice-lab2.labgrade | --lab 2 --capture DIR [--step ID] [--json | --format NAME] [--output FILE]
// [--report-only];  without --capture the cluster is judged.
import { statSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { checkSubmission } from './check-submission.ts'
import { gradeAndPrint, gradingOptions, labNumber } from './grading.ts'
import { main } from './main.ts'

await main(async () => {
  const { values } = parseArgs({
    options: { ...gradingOptions, lab: { type: 'string' }, capture: { type: 'string' }, key: { type: 'string' } },
  })
  const { capture } = values
  if (capture !== undefined && statSync(capture, { throwIfNoEntry: false })?.isDirectory() === false)
    return checkSubmission(capture, values)
  return gradeAndPrint({ ...values, lab: labNumber(values.lab) })
})
