import { Refusal } from '../dataplane/refusal.ts'
import { explainSystemError } from './system-trouble.ts'
import { Trouble } from './trouble.ts'

/** Exit codes of every script. */
export const ExitCode = { passed: 0, notYet: 1, trouble: 2 } as const

/**
 * An error of the language itself, which neither an input nor the machine causes. A library's
 * TypeError has a code, and one of a connection (`fetch failed`) a cause.
 */
const isBug = (error: Error): boolean =>
  [TypeError, RangeError, ReferenceError].some((kind) => error instanceof kind) &&
  error.cause === undefined &&
  !('code' in error)

/**
 * The sentence for an error that ends a command, and the command's exit code: a refusal (input that
 * is not accepted), a trouble (of the machine, the cluster or the grader), or a bug. A failure of a
 * learner's step is no error of a command: grading/judge.ts makes a verdict of it, and
 * grading/report.ts an exit code.
 */
export function explainError(
  error: unknown,
  hasUsage: boolean,
): { sentence: string; exitCode: number } {
  return { sentence: sentenceOf(error, hasUsage), exitCode: ExitCode.trouble }
}

/**
 * Messages of parseArgs explain positional arguments at length; only their first sentence is kept.
 */
function sentenceOf(error: unknown, hasUsage: boolean): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof Refusal || error instanceof Trouble) return error.message
  const refused = apiMessage(error)
  if (refused !== undefined) return refused
  const explained = explainSystemError(error)
  if (explained !== undefined) return explained
  const { code } = error as NodeJS.ErrnoException
  if (isBug(error))
    return `This is a bug, not your mistake: ${error.message}. Please report it with the output of the same command with DEBUG=1.`
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
