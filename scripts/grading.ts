import { grade } from '../checks/grader.ts'
import { learnerReport } from '../checks/learner-report.ts'
import type { Source } from '../checks/report-schema.ts'
import { gradeInVitest } from '../checks/vitest-run.ts'
import { selectCluster } from '../cluster/select.ts'
import { UserError } from './main.ts'

/** Options that both grading scripts take. */
export const gradingOptions = {
  step: { type: 'string' },
  json: { type: 'boolean' },
  junit: { type: 'string' },
} as const

export interface GradingWish {
  lab: number
  step?: string | undefined
  capture?: string | undefined
  json?: boolean | undefined
  /** File to write JUnit XML to; the grading is then a vitest run. */
  junit?: string | undefined
}

/** Reads the number of a lab. Throws a UserError that shows how it is written. */
export function labNumber(text: string | undefined): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new UserError(`"${text ?? ''}" is no number of a lab: write it as in \`make check-2\`.`)
}

/** Grades, prints the report for people or as JSON, and gives the exit code: 0 passed, 1 open, 2 could not be checked. */
export async function gradeAndPrint({ lab, step, capture, json, junit }: GradingWish): Promise<number> {
  const request = { lab, ...(step === undefined ? {} : { step }), source: await sourceOf(capture) }
  const report = junit === undefined ? await grade(request) : await gradeInVitest(request, junit)
  process.stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : learnerReport(report))
  return report.exitCode
}

async function sourceOf(capture: string | undefined): Promise<Source> {
  if (capture !== undefined) return { kind: 'capture', folder: capture }
  const { driver, name } = await selectCluster()
  return { kind: 'cluster', driver, name }
}
