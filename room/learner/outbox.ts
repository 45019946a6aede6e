// Facts that wait to be sent: a file each, named by key and stamp, so that several commands can add
// to it and a command that is killed loses nothing. A newer fact takes the place of an older one
// with its key.

import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readPlainFile } from '../../host/plain-file.ts'
import { keyOfFact, type LearnerFact, type SentFact, sentFactSchema } from '../protocol.ts'

const FILE = /^(.+)\.(\d+)\.json$/

export class Outbox {
  readonly #folder: string
  /** The largest stamp of any command: what was sent is no longer in the folder. */
  readonly #stampFile: string
  /** What this command has added, also where the disk is full. */
  readonly #own = new Map<string, SentFact>()
  #stamp = 0

  constructor(folder: string) {
    this.#folder = join(folder, 'outbox')
    this.#stampFile = join(folder, 'stamp')
  }

  /** Adds a fact with the next stamp. */
  put(fact: LearnerFact, now = Date.now()): SentFact {
    const files = this.#files()
    // A clock that was set back, or two facts in one millisecond.
    this.#stamp = Math.max(now, this.#stamp + 1, this.#lastStamp() + 1)
    const sent = { stamp: this.#stamp, at: now, fact }
    const key = keyOfFact(fact)
    this.#own.set(key, sent)
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      writeFileSync(join(this.#folder, nameOf(key, sent.stamp)), JSON.stringify(sent), {
        mode: 0o600,
      })
      writeFileSync(this.#stampFile, String(this.#stamp), { mode: 0o600 })
      for (const { name } of files.filter((file) => file.key === key)) this.#remove(name)
    } catch {
      // The lab goes on; this command still has it.
    }
    return sent
  }

  /** What waits, of this and other commands, the oldest first. */
  waiting(): SentFact[] {
    const facts = new Map(this.#own)
    for (const { name, key, stamp } of this.#files())
      if (stamp > (facts.get(key)?.stamp ?? -1)) {
        const read = this.#read(name)
        if (read) facts.set(key, read)
      }
    return [...facts.values()].sort((one, other) => one.stamp - other.stamp)
  }

  /** The room has stored a fact: it and older ones of its key are removed. */
  stored(key: string, stamp: number): void {
    if ((this.#own.get(key)?.stamp ?? Number.POSITIVE_INFINITY) <= stamp) this.#own.delete(key)
    for (const file of this.#files())
      if (file.key === key && file.stamp <= stamp) this.#remove(file.name)
  }

  #lastStamp(): number {
    try {
      return Number(readPlainFile(this.#stampFile)) || 0
    } catch {
      return 0
    }
  }

  #files(): { name: string; key: string; stamp: number }[] {
    try {
      return readdirSync(this.#folder).flatMap((name) => {
        const [, key, stamp] = FILE.exec(name) ?? []
        return key === undefined
          ? []
          : [{ name, key: decodeURIComponent(key), stamp: Number(stamp) }]
      })
    } catch {
      return []
    }
  }

  /** A fact of a file; one that can't be read, as its writer was killed, is removed. */
  #read(name: string): SentFact | undefined {
    try {
      return sentFactSchema.parse(JSON.parse(readPlainFile(join(this.#folder, name))))
    } catch {
      this.#remove(name)
      return undefined
    }
  }

  #remove(name: string): void {
    rmSync(join(this.#folder, name), { force: true })
  }
}

const nameOf = (key: string, stamp: number) => `${encodeURIComponent(key)}.${stamp}.json`
