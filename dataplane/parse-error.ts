/**
 * Text that is not what the named program prints. `line` counts from 1; `text` is the offending line, cut to a readable
 * length. `message` is one sentence a person can act on.
 */
export class ParseError extends Error {
  readonly source: string
  readonly line: number
  readonly text: string
  readonly fault: string

  constructor(source: string, line: number, text: string, fault: string) {
    const shown = readable(text)
    super(`${source}, line ${line}: ${fault}: "${shown}"`)
    this.name = 'ParseError'
    this.source = source
    this.line = line
    this.text = shown
    this.fault = fault
  }
}

const LONGEST_QUOTE = 200

/** One line of unknown text made safe to print: control characters escaped, cut after 200 characters. */
function readable(text: string): string {
  const cut = text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text
  return cut.replace(/[\x00-\x1f\x7f]/g, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`)
}
