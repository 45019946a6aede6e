import { sentenceOf } from '../../course/lab-session.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'

/** Work that takes a while, one at a time; the pages show its name, or the part of it that is done just now. */
export class LongWork {
  readonly #onChange: () => void
  #name: string | undefined
  #part: string | undefined

  /** `onChange` is called when there is something else to show. */
  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  get isBusy(): boolean {
    return this.#name !== undefined
  }

  /** What the pages show; undefined while there is no work. */
  get shown(): string | undefined {
    return this.#name && (this.#part ?? this.#name)
  }

  /** Does work. Throws Error with a sentence if it fails, or if other work is not done. */
  async do<T>(name: string, work: () => Promise<T>): Promise<T> {
    if (this.#name !== undefined) throw new Error(`Wait until this is done: ${this.#name}.`)
    this.#show(name)
    try {
      return await work()
    } catch (error) {
      throw new Error(sentenceOf(error))
    } finally {
      this.#show(undefined)
    }
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
    const before = this.shown
    this.#name = name
    this.#part = part
    if (this.shown !== before) this.#onChange()
  }
}
