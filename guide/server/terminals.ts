// The terminals of the page: at most twelve shells of this machine, which end with the server.

import { isMetWithin } from '../../host/wait.ts'
import type { TerminalsPush } from '../protocol.ts'
import type { EndedCommand } from './prompt.ts'
import type { ShellCommand } from './shell-command.ts'
import {
  membersOf,
  type PageSocket,
  signalSession,
  Terminal,
  type TerminalReports,
} from './terminal.ts'

/** Maximum number of terminals. */
const MOST = 12
/** The time for a shell to pass on a hang-up, and for killed processes to end. */
const END_MS = 500

interface TerminalOptions {
  /** What runs at a place. */
  commandFor(place: string): ShellCommand
  /** Is told which terminals there are. */
  onChange(push: TerminalsPush): void
  /** Where the terminal of this id reports. */
  reportsOf(id: string): TerminalReports
}

export class Terminals {
  readonly #options: TerminalOptions
  readonly #terminals = new Map<string, Terminal>()
  readonly #onExit = () => void this.#signalAll('SIGKILL')
  #count = 0
  #trouble: string | undefined

  constructor(options: TerminalOptions) {
    this.#options = options
    // However the process ends, no shell outlives it.
    process.once('exit', this.#onExit)
  }

  /**
   * Opens a terminal and returns its id. Throws Error with a sentence if there can be none, which
   * the pages are told, too.
   */
  async open(place: string): Promise<string> {
    const { commandFor, reportsOf } = this.#options
    const { spawn } = await this.#library()
    // Nothing is awaited between this and the new entry, so that many requests at once do not pass
    // it.
    if (this.#terminals.size >= MOST)
      throw new Error(
        `There are ${MOST} terminals already: close one of them before you open another.`,
      )
    const id = `t${++this.#count}`
    const titles = [...this.#terminals.values()].map((other) => other.title)
    let title = place
    for (let number = 2; titles.includes(title); number++) title = `${place} (${number})`
    this.#terminals.set(id, new Terminal(place, title, commandFor(place), spawn, reportsOf(id)))
    this.#tell()
    return id
  }

  /**
   * Shows a terminal to a page: its screen, then what it prints. False if there is no terminal of
   * that id.
   */
  attach(id: string, page: PageSocket): boolean {
    const terminal = this.#terminals.get(id)
    terminal?.attach(page)
    return terminal !== undefined
  }

  /** The terminal of an id, or the first of a place; undefined if there is none. */
  find(place: string, id?: string): string | undefined {
    const ids = [...this.#terminals]
      .filter(([, terminal]) => terminal.place === place)
      .map(([own]) => own)
    return ids.find((own) => own === id) ?? ids[0]
  }

  /**
   * Types a line into a terminal as `Terminal.enter` does; a terminal that is gone runs nothing.
   */
  async enter(id: string, line: string, isWanted: () => boolean): Promise<EndedCommand> {
    return (await this.#terminals.get(id)?.enter(line, isWanted)) ?? {}
  }

  /** Types Ctrl-C into a terminal. */
  interrupt(id: string): void {
    this.#terminals.get(id)?.interrupt()
  }

  /** Ends a terminal and removes it. Throws Error if the id is unknown. */
  close(id: string): void {
    const terminal = this.#terminals.get(id)
    if (!terminal) throw new Error(`There is no terminal "${id}".`)
    this.#terminals.delete(id)
    terminal.close()
    this.#tell()
  }

  /**
   * Ends every shell and the processes that it started; those that ignore the hang-up are killed.
   */
  async end(): Promise<void> {
    for (const signal of ['SIGHUP', 'SIGKILL'] as const) {
      const left = this.#signalAll(signal)
      await isMetWithin(END_MS, async () => left.every((pid) => membersOf(pid).length === 0))
    }
    process.off('exit', this.#onExit)
  }

  #signalAll(signal: NodeJS.Signals): number[] {
    const pids = [...this.#terminals.values()].map(({ pid }) => pid)
    for (const pid of pids) signalSession(pid, signal)
    return pids
  }

  #tell(): void {
    const terminals = [...this.#terminals].map(([id, { place, title }]) => ({ id, place, title }))
    this.#options.onChange({ terminals, trouble: this.#trouble })
  }

  async #library(): Promise<typeof import('@lydell/node-pty')> {
    try {
      return await import('@lydell/node-pty')
    } catch {
      this.#trouble = `There are no terminals on this page, because @lydell/node-pty has no program for ${process.platform} on ${process.arch}: type the commands in a terminal beside it, after \`eval "$(make env)"\`.`
      this.#tell()
      throw new Error(this.#trouble)
    }
  }
}
