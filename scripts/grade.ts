// Grades a lab as the cluster stands:  grade.ts 2 [--step ID] [--json]
import { parseArgs } from 'node:util'
import { gradeAndPrint, gradingOptions, labNumber } from './grading.ts'
import { main } from './main.ts'

await main(async () => {
  const { values, positionals } = parseArgs({ options: gradingOptions, allowPositionals: true })
  return gradeAndPrint({ ...values, lab: labNumber(positionals[0]) })
})
