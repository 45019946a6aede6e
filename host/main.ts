import { chalk } from 'zx/core'
import { ExitCode, explainError } from './explain-error.ts'
import { guardOutput } from './output.ts'
import { linesFor } from './wrap-lines.ts'

export { Refusal } from '../dataplane/refusal.ts'
export { ExitCode } from './explain-error.ts'

/** The first line of an error's message, as a clause. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Object && 'message' in error ? error.message : error
  return String(message).split('\n')[0] ?? ''
}

/**
 * Runs a script's body and turns what it throws into one sentence on standard error and exit code
 * 2; `DEBUG=1` adds the stack. A number that the body resolves to is the exit code. A script with a
 * `usage` prints it for --help.
 */
export async function main(body: () => Promise<unknown>, usage?: string): Promise<void> {
  guardOutput()
  if (
    usage !== undefined &&
    process.argv.slice(2).some((word) => word === '--help' || word === '-h')
  ) {
    process.stdout.write(usage)
    return
  }
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // `make status | head -1` closes our output early; that is not an error.
    if (error.code === 'EPIPE') process.exit(ExitCode.passed)
    reportLostOutput(error)
  })
  // Without standard error there is no place for a report.
  process.stderr.on('error', () => {})
  try {
    const code = await body()
    process.exitCode = typeof code === 'number' ? code : ExitCode.passed
  } catch (error) {
    const { sentence, exitCode } = explainError(error, usage !== undefined)
    const lines = linesFor(process.stderr, sentence, ` ${chalk.red('✗')} `)
    process.stderr.write(`${lines.join('\n')}\n`)
    if (process.env.DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`)
    process.exitCode = exitCode
  }
}

let outputIsLost = false

/**
 * Output that can't be written, on a full disk for example, is trouble also where the work was
 * done: a script reads what is missing.
 */
function reportLostOutput(error: NodeJS.ErrnoException): void {
  if (outputIsLost) return
  outputIsLost = true
  process.on('exit', () => {
    process.exitCode = ExitCode.trouble
  })
  process.stderr.write(
    ` ${chalk.red('✗')} The output can't be written (${error.code}): name another file, or make room on its disk, and run the command again.\n`,
  )
}
