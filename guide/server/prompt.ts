/** A shell that reports nothing gets the next line after this time. */
const SILENT_MS = 1500
/** The same for one that should mark its prompts: its start takes longer on a busy machine. */
const MARKS_MS = 30_000

/** How a command ended: with an exit status, or without one that is known. */
export interface EndedCommand {
  /** Absent where the shell does not report it (only the guide's bash does), or has ended itself. */
  status?: number
}

/**
 * Whether the shell of a terminal waits for a command, and how the last one ended. The guide's bash marks it with OSC 133
 * (guide/shell/bashrc); another shell switches bracketed paste (DEC mode 2004) on while it waits, or reports nothing.
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
  readonly #waiting = new Set<() => void>()

  /** `expectsMarks`: it is the guide's bash. */
  constructor(expectsMarks: boolean) {
    this.#silentMs = expectsMarks ? MARKS_MS : SILENT_MS
  }

  /** The shell waits for a command. */
  get isThere(): boolean {
    return this.#isThere
  }

  /**
   * The shell shows its prompt (`isMark`), or has switched bracketed paste on. True if that ends a command whose end was not marked:
   * the learner has replaced the prompt commands of the shell.
   */
  shown(isMark: boolean): boolean {
    if (isMark) this.#hasMarks = true
    else if (this.#hasMarks) return false
    const wasRunning = isMark && this.#isRunning && this.ended({})
    // A terminal that gets another size has its prompt drawn again, also behind a line that was just sent.
    if (isMark && this.#isLeft) return false
    this.#isReported = true
    this.#isThere = true
    this.#release()
    return wasRunning
  }

  /** The shell has a command. */
  started(isMark: boolean): void {
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

  /** A line was sent. */
  left(): void {
    this.#isThere = false
    this.#isLeft = true
    this.#last = {}
  }

  /** The shell has ended: nobody waits for it, and a new one reports for itself. */
  gone(): void {
    this.#isThere = this.#isReported = this.#hasMarks = this.#isRunning = this.#isLeft = false
    this.#last = {}
    this.#release()
  }

  /** Resolves when the shell waits for a command, with how the last one ended; after a moment if it never reports that. */
  async wait(): Promise<EndedCommand> {
    if (!this.#isThere)
      await new Promise<void>((resolve) => {
        this.#waiting.add(resolve)
        if (!this.#isReported) setTimeout(resolve, this.#silentMs).unref()
      })
    return this.#last
  }

  #release(): void {
    for (const goOn of this.#waiting) goOn()
    this.#waiting.clear()
  }
}
