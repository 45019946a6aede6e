/** A shell that reports nothing gets the next line after this time. */
const SILENT_MS = 1500
/** The same for one that should mark its prompts: its start takes longer on a busy machine. */
const MARKS_MS = 30_000

/** How a command ended: with an exit status, or without one that is known. */
export interface EndedCommand {
  /**
   * Absent where the shell does not report it (only the guide's bash does), or has ended itself.
   */
  status?: number
}

/** Who waits for a prompt. */
interface Waiting {
  /** False while the command that ended is not the one that is waited for. */
  isOver(command: string): boolean
  resolve(ended: EndedCommand): void
}

/**
 * Whether the shell of a terminal waits for a command, and how the last one ended. The guide's bash
 * marks it with OSC 133 (guide/shell/bashrc); another shell switches bracketed paste (DEC mode
 * 2004) on while it waits, or reports nothing.
 */
export class Prompt {
  readonly #silentMs: number
  #isThere = false
  #isReported = false
  #hasMarks = false
  #isRunning = false
  /** A line was sent, and its command has not ended. */
  #isLeft = false
  #last: EndedCommand = {}
  /** The command that has started last, if the shell tells it. */
  #command = ''
  readonly #waiting = new Set<Waiting>()

  /** `expectsMarks`: it is the guide's bash. */
  constructor(expectsMarks: boolean) {
    this.#silentMs = expectsMarks ? MARKS_MS : SILENT_MS
  }

  /** The shell waits for a command. */
  get isThere(): boolean {
    return this.#isThere
  }

  /**
   * The shell shows its prompt (`isMark`), or has switched bracketed paste on. True if that ends a
   * command whose end was not marked: the learner has replaced the prompt commands of the shell.
   */
  shown(isMark: boolean): boolean {
    if (isMark) this.#hasMarks = true
    else if (this.#hasMarks) return false
    const wasRunning = isMark && this.#isRunning && this.ended({})
    // A terminal that gets another size has its prompt drawn again, also behind a line that was
    // just sent.
    if (isMark && this.#isLeft) return false
    this.#isReported = true
    this.#isThere = true
    this.#release()
    return wasRunning
  }

  /** The shell has a command: which, if it tells it. */
  started(isMark: boolean, command = ''): void {
    this.#command = command
    if (isMark) this.#hasMarks = true
    else if (this.#hasMarks) return
    this.#isReported = true
    this.#isThere = false
    this.#isRunning = isMark
  }

  /** The mark of an end. False if no command was running: bash marks one before each prompt. */
  ended(command: EndedCommand): boolean {
    const wasRunning = this.#isRunning
    this.#hasMarks = true
    this.#isRunning = false
    this.#isLeft = false
    this.#last = wasRunning ? command : {}
    return wasRunning
  }

  /**
   * A line is sent, behind those that were typed `ahead` while another command ran. Resolves with
   * how its command ended, once the shell waits again.
   */
  entered(line: string, ahead: readonly string[] = []): Promise<EndedCommand> {
    const before = [...ahead]
    this.#left()
    return this.#next((command) => {
      if (command !== before[0] || command === line) return true
      before.shift()
      return false
    })
  }

  #left(): void {
    this.#isThere = false
    this.#isLeft = true
    this.#last = {}
  }

  /** The shell has ended: no caller waits for it any longer, and a new one reports for itself. */
  gone(): void {
    this.#isThere = this.#isReported = this.#hasMarks = this.#isRunning = this.#isLeft = false
    this.#last = {}
    this.#command = ''
    this.#release()
  }

  /** Resolves when the shell waits for a command; after a moment if it never reports that. */
  async wait(): Promise<void> {
    // A line that was typed ahead may have started since.
    while (!this.#isThere) {
      await this.#next(() => true)
      if (!this.#isReported) return
    }
  }

  #next(isOver: Waiting['isOver']): Promise<EndedCommand> {
    return new Promise((resolve) => {
      const waiting = { isOver, resolve }
      this.#waiting.add(waiting)
      if (this.#isReported) return
      const giveUp = () => this.#waiting.delete(waiting) && resolve(this.#last)
      setTimeout(giveUp, this.#silentMs).unref()
    })
  }

  /** Decides while the mark is read: one piece of output can have the marks of several commands. */
  #release(): void {
    for (const waiting of this.#waiting) {
      if (this.#isReported && !waiting.isOver(this.#command)) continue
      this.#waiting.delete(waiting)
      waiting.resolve(this.#last)
    }
    if (this.#waiting.size > 0) this.#left()
  }
}
