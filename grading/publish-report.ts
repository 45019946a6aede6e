import { writeFileSync } from 'node:fs'
import { ExitCode } from '../host/main.ts'
import { plainJson } from '../host/plain-text.ts'
import type { Report } from './report-schema.ts'

/** Which result a command writes, where, and with which exit code. */
export interface PublishOptions {
  /** The report itself instead of a text. */
  json?: boolean | undefined
  /** The file to write; default: standard output. */
  output?: string | undefined
  /** Whether every verdict has the exit code 0. */
  'report-only'?: boolean | undefined
}

/**
 * Writes a report, as JSON or as this text, and returns the exit code: 0 passed, 1 not yet, 2 could
 * not be checked.
 */
export function publishReport(
  report: Report,
  text: string,
  { json, output, 'report-only': reportOnly }: PublishOptions,
): number {
  const written = json ? `${plainJson(report)}\n` : text
  if (output === undefined) process.stdout.write(written)
  else writeFileSync(output, written)
  return reportOnly ? ExitCode.passed : report.exitCode
}
