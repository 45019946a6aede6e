/** What a command run on a node left behind. */
export interface ExecResult {
  exitCode: number
  stdout: string
  stderr: string
}

export interface ExecOptions {
  /** Given to the command on its standard input. */
  stdin?: string | Uint8Array
  /** Milliseconds after which the command is ended and the call rejects. */
  timeoutMs?: number
}

/** A text as one word of a POSIX shell, whatever it holds but NUL bytes. (zx quotes for bash, which dash does not understand.) */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
