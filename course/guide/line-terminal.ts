// The guide's input and output: lines of the learner become events, blocks and the status are
// printed below each other. Nothing that was printed is painted over, so scrollback, copying,
// screen readers and pipes work.

import { createInterface, type Interface } from 'node:readline'
import { chalk } from 'zx/core'
import { isOn } from '../../host/switches.ts'
import type { GuideBlock } from './guide-blocks.ts'
import { blockLines, statusLine } from './guide-lines.ts'
import type { GuideEvent, GuideState } from './guide-state.ts'
import { PLAIN, type Style } from './terminal-text.ts'

/** The widest line of prose, in columns; it is wrapped at words. */
const WIDEST_PROSE = 100
const NARROWEST_PROSE = 40

const COLOURED: Style = {
  strong: chalk.bold,
  emphasis: chalk.italic,
  code: chalk.cyan,
  dim: chalk.dim,
}

/**
 * True if packets are not drawn and nothing is coloured: TERM=dumb, NO_COLOR, or PLAIN=1 for screen
 * readers.
 */
export const isPlain = (env = process.env): boolean =>
  env.TERM === 'dumb' || Boolean(env.NO_COLOR) || isOn('PLAIN', env)

/** The columns for prose on the terminal of this process. */
const proseWidth = (): number =>
  Math.max(NARROWEST_PROSE, Math.min(WIDEST_PROSE, process.stdout.columns || WIDEST_PROSE))

export class LineTerminal {
  readonly #send: (event: GuideEvent) => void
  readonly #style = isPlain() ? PLAIN : COLOURED
  #reader: Interface | undefined
  /** The status that was printed last; undefined if other lines were printed below it. */
  #status: string | undefined

  /** `send` is told each line of the learner, and the end of the input. */
  constructor(send: (event: GuideEvent) => void) {
    this.#send = send
  }

  open(): void {
    const reader = createInterface({ input: process.stdin, terminal: false })
    reader.on('line', (line) => this.#send({ type: 'line', text: line.trim() }))
    reader.on('close', () => reader === this.#reader && this.#send({ type: 'quit' }))
    this.#reader = reader
  }

  /**
   * Ends reading. What is printed later is dropped: a check that was running when the learner quit
   * ends then.
   */
  close(): void {
    const reader = this.#reader
    this.#reader = undefined
    reader?.close()
  }

  print(block: GuideBlock): void {
    if (!this.#reader) return
    for (const line of blockLines(block, proseWidth(), this.#style)) console.log(line)
    this.#status = undefined
  }

  /** Prints the status of a state if it has changed, or other lines were printed since. */
  showStatus(state: GuideState): void {
    if (!this.#reader) return
    const status = statusLine(state)
    if (status === this.#status) return
    console.log(status)
    this.#status = status
  }
}
