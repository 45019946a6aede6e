import { writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { selectCluster } from '../cluster/select.ts'
import { seedOf } from '../grading/class-key.ts'
import { grade } from '../grading/grader.ts'
import { learnerReport } from '../grading/learner-report.ts'
import type { Report, Source } from '../grading/report-schema.ts'
import { ExitCode, UserError } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { plainJson } from '../host/plain-text.ts'
import { classResult } from './class/class-result.ts'
import { CLASS_FORMATS, type Format, formatNamed, isClassFormat, LEARNER_FORMATS } from './class/formats/formats.ts'
import { gradedReport, type Judged } from './class/judge-file.ts'

/** Options that both grading scripts take. */
export const gradingOptions = {
  step: { type: 'string' },
  json: { type: 'boolean' },
  junit: { type: 'string' },
  format: { type: 'string' },
  output: { type: 'string' },
  'report-only': { type: 'boolean' },
} as const

export interface GradingOptions {
  lab: number
  step?: string | undefined
  capture?: string | undefined
  json?: boolean | undefined
  /** File to write JUnit XML to, besides. */
  junit?: string | undefined
  /** Another system's format instead of the text report. */
  format?: string | undefined
  /** File that the report goes to instead of standard output. */
  output?: string | undefined
  /** Exit 0 if a report was written, with any verdict: for harnesses that read the file. */
  'report-only'?: boolean | undefined
}

/** How a report is shown. */
export interface Shown {
  text: () => string
  judged: Judged
}

/** Grades, prints the report as text or JSON, and returns the exit code: 0 passed, 1 open, 2 could not be checked. */
export async function gradeAndPrint({ lab, step, capture, junit, ...wish }: GradingOptions): Promise<number> {
  for (const file of [wish.output, junit]) if (file !== undefined) requireWritable(file)
  const request = { lab, ...(step === undefined ? {} : { step }), source: await sourceOf(capture) }
  const report = await grade(request)
  const learner = process.env.LEARNER || 'learner'
  const file = capture === undefined ? 'the cluster' : basename(capture)
  const prints = { clusters: [], objects: [], files: [], learners: [] }
  const judged = { file, graded: gradedReport(report, { learner, file }), seed: seedOf(learner), prints }
  if (junit !== undefined) writeFileSync(junit, formatted(formatNamed('junit'), judged, report))
  return publish(report, wish, { text: () => learnerReport(report), judged })
}

/** Writes a report as requested and returns the exit code. */
export function publish(
  report: Report,
  { json, format, output, 'report-only': reportOnly }: Omit<GradingOptions, 'lab'>,
  { text, judged }: Shown,
): number {
  const written = json
    ? `${plainJson(report)}\n`
    : format === undefined
      ? text()
      : formatted(formatNamed(format), judged, report)
  if (output === undefined) process.stdout.write(written)
  else writeFileSync(output, written)
  return reportOnly ? ExitCode.passed : report.exitCode
}

function formatted(format: Format, judged: Judged, { seconds }: Report): string {
  if (isClassFormat(format)) return CLASS_FORMATS[format](classResult([judged], seconds))
  if ('graded' in judged) return LEARNER_FORMATS[format](judged.graded)
  throw new UserError(judged.refused)
}

async function sourceOf(capture: string | undefined): Promise<Source> {
  if (capture !== undefined) return { kind: 'capture', folder: capture }
  const { driver, name } = await selectCluster()
  return { kind: 'cluster', driver, name }
}
