import { chalk } from 'zx/core'
import { guardOutput } from './output.ts'
import { explainSystemError } from './system-trouble.ts'

/** An error that the user can fix; the message is a sentence with the value and the next command. */
export class UserError extends Error {}

/** The first line of an error's message, as a clause. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Object && 'message' in error ? error.message : error
  return String(message).split('\n')[0] ?? ''
}

/** Exit codes of every script. */
export const ExitCode = { passed: 0, notYet: 1, trouble: 2 } as const

/**
 * Runs a script's body and turns what it throws into one sentence on standard error and exit code 2; `DEBUG=1` adds the
 * stack. A number that the body resolves to is the exit code. A script with a `usage` prints it for --help.
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
    const text = sentenceOf(error, usage !== undefined)
    process.stderr.write(` ${chalk.red('✗')} ${text}\n`)
    if (process.env.DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`)
    process.exitCode = ExitCode.trouble
  }
}

let outputIsLost = false

/** Output that can't be written, on a full disk for example, is trouble also where the work was done: a script reads what is missing. */
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

/** Messages of parseArgs explain positional arguments at length; only their first sentence is kept. */
function sentenceOf(error: unknown, hasUsage: boolean): string {
  if (!(error instanceof Error)) return String(error)
  const refused = apiMessage(error)
  if (refused !== undefined) return refused
  const explained = explainSystemError(error)
  if (explained !== undefined) return explained
  const { code } = error as NodeJS.ErrnoException
  if (!hasUsage || !code?.startsWith('ERR_PARSE_ARGS_')) return error.message
  return `${error.message.split(/\. |\n/)[0]?.replace(/\.$/, '')}: --help lists the options.`
}

/** The message of an API server's Status, without the headers and JSON that the client adds. */
function apiMessage(error: object): string | undefined {
  if (!('code' in error && typeof error.code === 'number' && 'body' in error)) return undefined
  try {
    const status: unknown = typeof error.body === 'string' ? JSON.parse(error.body) : error.body
    if (!(status instanceof Object && 'message' in status && typeof status.message === 'string'))
      return undefined
    return `The API server answered ${error.code}: ${status.message}.`
  } catch {
    return undefined
  }
}
