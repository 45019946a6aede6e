// The room's memory: an append-only file of JSON lines. What is in it has survived: a line is
// confirmed when it is on the disk.

import type { FileHandle } from 'node:fs/promises'
import { open, rename } from 'node:fs/promises'
import { readPlainFile } from '../../host/plain-file.ts'

/** A whole journal; the class of 300 writes about 10 MB a day. */
const MOST_BYTES = 512 * 2 ** 20

/** Lines of one write. Lines that come while the disk writes wait for the next one. */
interface Batch {
  lines: string[]
  written: Promise<void>
}

export class Journal {
  readonly #file: FileHandle
  #next: Batch | undefined
  #last: Promise<void> = Promise.resolve()
  /** The file ends in the middle of a line. */
  #isTorn = false

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /**
   * Opens a journal and returns it with its entries. A line that is incomplete, because the process
   * was killed or the disk was full while it was written, was not confirmed to anyone and is left
   * out.
   */
  static async open(path: string): Promise<{ journal: Journal; entries: unknown[] }> {
    const file = await open(path, 'a+', 0o600)
    const text = readPlainFile(path, MOST_BYTES)
    const journal = new Journal(file)
    journal.#isTorn = text !== '' && !text.endsWith('\n')
    const entries = text.split('\n').flatMap((line) => {
      try {
        return line === '' ? [] : [JSON.parse(line) as unknown]
      } catch {
        return []
      }
    })
    return { journal, entries }
  }

  /** Replaces the entries of a journal that is not open, at once or not at all. */
  static async rewrite(path: string, entries: Iterable<unknown>): Promise<void> {
    const file = await open(`${path}.new`, 'w', 0o600)
    const lines = [...entries].map((entry) => `${JSON.stringify(entry)}\n`)
    await file.writeFile(lines.join(''))
    await file.datasync()
    await file.close()
    await rename(`${path}.new`, path)
  }

  /** Appends an entry; resolves when it is on the disk. */
  append(entry: unknown): Promise<void> {
    this.#next ??= this.#batch()
    this.#next.lines.push(`${JSON.stringify(entry)}\n`)
    return this.#next.written
  }

  /** Writes what waits and closes the file. */
  async close(): Promise<void> {
    await this.#last.catch(() => undefined)
    await this.#next?.written
    await this.#file.close()
  }

  #batch(): Batch {
    const lines: string[] = []
    const written = this.#last
      .catch(() => undefined)
      .then(async () => {
        this.#next = undefined
        const text = `${this.#isTorn ? '\n' : ''}${lines.join('')}`
        this.#isTorn = true
        await this.#file.appendFile(text)
        this.#isTorn = false
        await this.#file.datasync()
      })
    this.#last = written
    return { lines, written }
  }
}
