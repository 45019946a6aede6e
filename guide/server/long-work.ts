import { safeReason } from '../../course/lab-session.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'

/**
 * Work that takes a while, one at a time; the pages show its name, or the part of it that is done
 * just now.
 */
export class LongWork {
  readonly #onChange: () => void
  #name: string | undefined
  #part: string | undefined
  #since = 0
  /** Called when the work that is done now has ended. */
  #waiting: (() => void)[] = []

  /** `onChange` is called when there is something else to show. */
  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  get isBusy(): boolean {
    return this.#name !== undefined
  }

  /**
   * What the pages show, and since when (ms since 1970) the work is done; undefined while there is
   * none.
   */
  get shown(): { name: string; since: number } | undefined {
    if (this.#name === undefined) return undefined
    const name = this.#part === undefined ? this.#name : `${this.#name}: ${this.#part}`
    return { name, since: this.#since }
  }

  /** Shows what the work waits for. */
  tell(part: string): void {
    if (this.#name !== undefined) this.#show(this.#name, plainText(part))
  }

  /** Does work. Throws Error with a sentence if it fails, or if other work is not done. */
  async do<T>(name: string, work: () => Promise<T>): Promise<T> {
    if (this.#name !== undefined) throw new Error(`Wait until this is done: ${this.#name}.`)
    this.#since = Date.now()
    this.#show(name)
    try {
      return await work()
    } catch (error) {
      throw new Error(safeReason(error))
    } finally {
      this.#show(undefined)
    }
  }

  /** Does work as `do`, once all other work has ended. */
  async doNext<T>(name: string, work: () => Promise<T>): Promise<T> {
    while (this.isBusy) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    return this.do(name, work)
  }

  /** Progress lines that are printed, and are the parts of the work. */
  progress(printed: Progress): Progress {
    return {
      start: (what) => {
        printed.start(what)
        this.#show(this.#name, plainText(what))
      },
      end: (ok, detail) => {
        printed.end(ok, detail)
        this.#show(this.#name)
      },
      note: (line) => printed.note(line),
    }
  }

  #show(name: string | undefined, part?: string): void {
    const before = this.shown?.name
    this.#name = name
    this.#part = part
    if (this.shown?.name !== before) this.#onChange()
    if (name !== undefined) return
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
