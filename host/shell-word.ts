/** The result of a command on a node. */
export interface ExecResult {
  exitCode: number
  stdout: string
  stderr: string
}

export interface ExecOptions {
  stdin?: string | Uint8Array
  /** The time after which the command is ended and the call rejects. */
  timeoutMs?: number
}

/**
 * Quotes a text as one word of a POSIX shell; any text without NUL bytes. (zx quotes for bash,
 * which dash does not understand.)
 */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * A text as one word of a command to paste: quoted only where a shell, or make, would read it as
 * more than its characters.
 */
export const typedWord = (text: string): string =>
  /^[\w.,:@%+=/-]+$/.test(text) ? text : shellWord(text)

/** Lines of a POSIX shell that set variables. */
export const shellVariables = (values: Record<string, string>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}=${shellWord(value)}\n`)
    .join('')
