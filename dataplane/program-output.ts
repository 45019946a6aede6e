import type { z } from 'zod'
import { Refusal } from './refusal.ts'

/**
 * The text is not output of the named program; the message quotes the invalid line, which is
 * counted from 1.
 */
export class ParseError extends Refusal {
  override name = 'ParseError'
  readonly line: number

  constructor(source: string, line: number, text: string, fault: string) {
    super(`${source}, line ${line}: ${fault}: "${readable(text)}"`)
    this.line = line
  }
}

const LONGEST_QUOTE = 200

/**
 * One line of untrusted text for printing: control characters are escaped, and it is truncated to
 * 200 characters.
 */
function readable(text: string): string {
  const cut = text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text
  return cut.replace(
    /[\x00-\x1f\x7f]/g,
    (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
}

/**
 * The JSON that a program printed. Throws ParseError if it is not JSON or does not fit the schema,
 * with the path of the misfit.
 * @param hint how to take the output
 */
export function parseJson<Schema extends z.ZodType>(
  source: string,
  text: string,
  schema: Schema,
  hint: string,
): z.infer<Schema> {
  const fail = (fault: string) => new ParseError(source, 1, text.slice(0, 80), fault)
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw fail(`not JSON (take the output with ${hint})`)
  }
  const { data, error } = schema.safeParse(json)
  if (!error) return data
  const [issue] = error.issues
  throw fail(
    `${issue?.path.join('.') || 'the text'} is not output of ${source.split(' ')[0]} (${issue?.message})`,
  )
}

/** Why a line is not output of its program, to be thrown while it is read. */
export class LineError extends Error {}

/**
 * Reads each line of `text`, without its line end (LF or CRLF); the last one counts only if it is
 * not empty. Throws a LineError of `read` as a ParseError with the line. Returns the number of
 * lines.
 */
export function readLines(source: string, text: string, read: (line: string) => void): number {
  let count = 0
  // One line at a time: a list of all lines is a large part of the memory for 300,000 rules.
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf('\n', start)
    const end = newline === -1 ? text.length : newline
    const ended = text.slice(start, end)
    const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended
    count++
    try {
      read(line)
    } catch (error) {
      throw error instanceof LineError ? new ParseError(source, count, line, error.message) : error
    }
    start = end + 1
  }
  return count
}

/**
 * Splits a command line as iptables-restore and `ipset restore` do: words are separated by spaces;
 * double quotes enclose a word, and a backslash in them escapes the next character. Undefined if a
 * quote is not closed.
 */
export function splitWords(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(/[ \t]+/).filter((word) => word !== '')
  if (!CLOSED.test(line)) return undefined
  return (line.match(WORD) ?? []).map((word) =>
    word.replace(QUOTED, (quoted) => quoted.slice(1, -1).replace(/\\(.)/gs, '$1')),
  )
}

const QUOTED = /"(?:[^"\\]|\\.)*"/gs
const WORD = /(?:[^ \t"]|"(?:[^"\\]|\\.)*")+/gs
const CLOSED = /^(?:[^"]|"(?:[^"\\]|\\.)*")*$/s

/**
 * A word in double quotes, with `"`, `\` and `'` escaped as iptables-save (xtables_save_string)
 * escapes them.
 */
export function quoteWord(word: string): string {
  return `"${word.replace(/["\\']/g, '\\$&')}"`
}
