// Offline grading:  check.ts --lab 2 --capture DIR [--step ID] [--json];  without --capture the cluster is judged.
import { parseArgs } from 'node:util'
import { gradeAndPrint, gradingOptions, labNumber } from './grading.ts'
import { main } from './main.ts'

await main(async () => {
  const { values } = parseArgs({ options: { ...gradingOptions, lab: { type: 'string' }, capture: { type: 'string' } } })
  return gradeAndPrint({ ...values, lab: labNumber(values.lab) })
})
