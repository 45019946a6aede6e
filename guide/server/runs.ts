// What Run types into terminals: blocks of commands, one after the other, each line when the shell
// waits for a command.

import type { RunLine, RunsPush } from '../protocol.ts'
import type { EndedCommand } from './prompt.ts'

/** Maximum number of blocks whose marks are kept. */
const MOST_KEPT = 500

/** A line that only checks: it fails while an answer is missing. */
const CHECK = /^\s*make check-\d/

/** What a run needs of a terminal. */
export interface RunTerminal {
  /**
   * Types a line at the prompt and waits until the command has ended. `isWanted` is asked when the
   * prompt is there.
   */
  enter(line: string, isWanted: () => boolean): Promise<EndedCommand>
}

interface CommandBlock {
  key: string
  terminal: string
  lines: RunLine[]
  isCancelled: boolean
}

/** The lines of a block that are typed one by one: a line that ends in a backslash continues. */
export function typedLines(text: string): string[] {
  return text
    .replace(/\\\n/g, '\\\u0000')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => line.replaceAll('\u0000', '\n'))
}

/** The blocks that were run, for each terminal in the order of the clicks. */
export class Runs {
  readonly #blocks = new Map<string, CommandBlock>()
  readonly #queues = new Map<string, Promise<void>>()
  readonly #onChange: (push: RunsPush) => void

  /** `onChange` is told the state of all blocks. */
  constructor(onChange: (push: RunsPush) => void) {
    this.#onChange = onChange
  }

  /**
   * Adds a block to the queue of a terminal. A block that is queued or runs already is not added
   * again.
   */
  add(key: string, text: string, terminal: string, enter: RunTerminal['enter']): void {
    const known = this.#blocks.get(key)
    if (known && isUnfinished(known)) return
    const lines = typedLines(text).map((line): RunLine => ({ text: line, state: 'queued' }))
    const block: CommandBlock = { key, terminal, lines, isCancelled: false }
    // The latest ones are kept.
    this.#blocks.delete(key)
    this.#blocks.set(key, block)
    for (const [old, { lines }] of this.#blocks) {
      if (this.#blocks.size <= MOST_KEPT) break
      if (!lines.some(({ state }) => state === 'queued' || state === 'running'))
        this.#blocks.delete(old)
    }
    const before = this.#queues.get(terminal) ?? Promise.resolve()
    this.#queues.set(
      terminal,
      before.then(() => this.#run(block, enter)),
    )
    this.#tell()
  }

  /** Types no further line of a block. Returns the terminal in which a line of it still runs. */
  cancel(key: string): string | undefined {
    const block = this.#blocks.get(key)
    if (!block) return undefined
    this.#cancel(block)
    this.#tell()
    return block.lines.some(({ state }) => state === 'running') ? block.terminal : undefined
  }

  /** The same for all blocks of a terminal: Ctrl-C, or its end. */
  cancelAll(terminal: string): void {
    const open = [...this.#blocks.values()].filter(
      (block) => block.terminal === terminal && isUnfinished(block),
    )
    if (open.length === 0) return
    for (const block of open) this.#cancel(block)
    this.#tell()
  }

  /** Forgets the marks of blocks whose key begins so. */
  forget(prefix: string): void {
    for (const [key, block] of this.#blocks) {
      if (!key.startsWith(prefix)) continue
      this.#cancel(block)
      this.#blocks.delete(key)
    }
    this.#tell()
  }

  #cancel(block: CommandBlock): void {
    block.isCancelled = true
    for (const line of block.lines) if (line.state === 'queued') line.state = 'not run'
  }

  async #run(block: CommandBlock, enter: RunTerminal['enter']): Promise<void> {
    for (const line of block.lines) {
      if (line.state !== 'queued') continue
      const isWanted = () => {
        if (block.isCancelled) return false
        line.state = 'running'
        this.#tell()
        return true
      }
      const { status } = await enter(line.text, isWanted)
      if (lineState(line) !== 'running') {
        // The terminal is gone, or the block was cancelled.
        line.state = 'not run'
        this.#tell()
        continue
      }
      line.state = status === undefined ? 'ended' : status === 0 ? 'succeeded' : 'failed'
      if (status !== undefined) line.status = status
      // Later lines may need what this one should have done. A check does nothing that they could
      // need.
      if (line.state === 'failed' && !CHECK.test(line.text)) this.#cancel(block)
      this.#tell()
    }
  }

  #tell(): void {
    this.#onChange(
      Object.fromEntries(
        [...this.#blocks.values()].map(({ key, lines }) => [
          key,
          { lines: lines.map((line) => ({ ...line })) },
        ]),
      ),
    )
  }
}

const isUnfinished = ({ lines }: CommandBlock) =>
  lines.some(({ state }) => state === 'queued' || state === 'running')

/** The state as it is now, which the typing of a line changes. */
const lineState = ({ state }: RunLine): RunLine['state'] => state
