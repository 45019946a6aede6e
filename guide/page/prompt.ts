/** A shell that does not report when it waits for a command gets the next line after this time. */
const SILENT_MS = 1500

/** Whether the shell of a terminal waits for a command: it then switches bracketed paste (DEC mode 2004) on, and off when it has one. */
export class Prompt {
  #isThere = false
  #isReported = false
  readonly #waiting = new Set<() => void>()

  /** The shell has switched bracketed paste on or off. */
  report(isThere: boolean): void {
    this.#isReported = true
    this.#isThere = isThere
    if (isThere) this.release()
  }

  /** A line was sent, or the connection is lost. */
  leave(): void {
    this.#isThere = false
  }

  /** Lets all go on that wait: the terminal is closed. */
  release(): void {
    for (const goOn of this.#waiting) goOn()
    this.#waiting.clear()
  }

  /** Resolves when the shell waits for a command, or after a moment if it never reports that. */
  async wait(): Promise<void> {
    if (this.#isThere) return
    await new Promise<void>((resolve) => {
      this.#waiting.add(resolve)
      if (!this.#isReported) setTimeout(resolve, SILENT_MS)
    })
  }
}
