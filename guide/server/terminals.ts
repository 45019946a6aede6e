// The terminals of the page: shells in pseudo terminals of this machine; several pages can show the same one.

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { IPty } from '@lydell/node-pty'
import type { WebSocket } from 'ws'
import { TERMINAL_REQUEST, type TerminalNews, type TerminalsPush } from '../protocol.ts'

/** The place of the user's own shell. */
export const HOST = 'host'
/** The amount of output that is stored for pages that connect later. */
const KEPT_CHARACTERS = 200_000
/** Maximum number of terminals. */
const MOST = 12
/** The time for a shell to pass on a hang-up, and for killed processes to end. */
const END_MS = 500
const SIZE = { cols: 100, rows: 30 }

/** What runs in a terminal. */
export interface ShellCommand {
  file: string
  words: string[]
  env: NodeJS.ProcessEnv
  cwd: string
}

interface Terminal {
  id: string
  place: string
  title: string
  pty: IPty
  output: string
  pages: Set<WebSocket>
  ended?: string
}

export class Terminals {
  readonly #commandFor: (place: string) => ShellCommand
  readonly #onChange: (push: TerminalsPush) => void
  readonly #onCommand: () => void
  readonly #terminals = new Map<string, Terminal>()
  // However the process ends, no shell outlives it.
  readonly #killAtExit = () => this.#killAll('SIGKILL')
  #count = 0
  #trouble: string | undefined

  /**
   * `commandFor` returns what runs at a place, `onChange` is told which terminals there are, `onCommand` that a command was typed.
   */
  constructor(
    commandFor: (place: string) => ShellCommand,
    onChange: (push: TerminalsPush) => void,
    onCommand: () => void,
  ) {
    this.#commandFor = commandFor
    this.#onChange = onChange
    this.#onCommand = onCommand
    process.once('exit', this.#killAtExit)
  }

  /** Opens a terminal and returns its id. Throws Error with a sentence if there can be none. */
  async open(place: string): Promise<string> {
    if (this.#terminals.size >= MOST)
      throw new Error(`There are ${MOST} terminals already: close one of them before you open another.`)
    const { file, words, env, cwd } = this.#commandFor(place)
    const { spawn } = await this.#library()
    const pty = spawn(file, words, { ...SIZE, name: 'xterm-256color', cwd, env })
    const id = `t${++this.#count}`
    const same = [...this.#terminals.values()].filter((other) => other.place === place).length
    const title = same === 0 ? place : `${place} (${same + 1})`
    const terminal: Terminal = { id, place, title, pty, output: '', pages: new Set() }
    this.#terminals.set(id, terminal)
    pty.onData((text) => {
      terminal.output = tail(terminal.output + text)
      for (const page of terminal.pages) page.send(Buffer.from(text))
    })
    pty.onExit(({ exitCode }) => {
      terminal.ended = `The shell at "${title}" has ended with exit code ${exitCode}.`
      for (const page of terminal.pages) sendNews(page, terminal.ended)
    })
    this.#tell()
    return id
  }

  /** Shows a terminal to a page: what it printed, then what it prints. False if there is no terminal of that id. */
  attach(id: string, page: WebSocket): boolean {
    const terminal = this.#terminals.get(id)
    if (!terminal) return false
    page.send(Buffer.from(terminal.output))
    if (terminal.ended !== undefined) sendNews(page, terminal.ended)
    terminal.pages.add(page)
    page.on('close', () => terminal.pages.delete(page))
    page.on('message', (data: Buffer, isBinary) => {
      if (terminal.ended !== undefined) return
      if (isBinary) this.#type(terminal, data)
      else resize(terminal, data)
    })
    return true
  }

  /** Ends a terminal and removes it. Throws Error if the id is unknown. */
  close(id: string): void {
    const terminal = this.#terminals.get(id)
    if (!terminal) throw new Error(`There is no terminal "${id}".`)
    this.#terminals.delete(id)
    for (const page of terminal.pages) page.close()
    if (terminal.ended === undefined) endSession(terminal.pty.pid, 'SIGHUP')
    this.#tell()
  }

  /** Pushes the list of terminals, even if it is empty. */
  announce(): Promise<void> {
    return this.#library().then(
      () => this.#tell(),
      () => this.#tell(),
    )
  }

  /** Ends every shell and the processes that it started; those that ignore the hang-up are killed. */
  async end(): Promise<void> {
    for (const signal of ['SIGHUP', 'SIGKILL'] as const) {
      const left = this.#killAll(signal)
      for (let waited = 0; waited < END_MS && left.some((pid) => membersOf(pid).length > 0); waited += 50)
        await pause(50)
    }
    process.off('exit', this.#killAtExit)
  }

  #killAll(signal: NodeJS.Signals): number[] {
    const pids = [...this.#terminals.values()].map(({ pty }) => pty.pid)
    for (const pid of pids) endSession(pid, signal)
    return pids
  }

  #type({ pty }: Terminal, data: Buffer): void {
    pty.write(data.toString())
    if (data.includes('\r')) this.#onCommand()
  }

  #tell(): void {
    const terminals = [...this.#terminals.values()].map(({ id, place, title }) => ({ id, place, title }))
    this.#onChange({ type: 'terminals', terminals, ...(this.#trouble === undefined ? {} : { trouble: this.#trouble }) })
  }

  async #library(): Promise<typeof import('@lydell/node-pty')> {
    try {
      return await import('@lydell/node-pty')
    } catch {
      this.#trouble = `There are no terminals on this page, because @lydell/node-pty has no program for ${process.platform} on ${process.arch}: type the commands in a terminal beside it, after \`eval "$(make env)"\`.`
      throw new Error(this.#trouble)
    }
  }
}

/** The end of an output, from the beginning of a line, so that no escape sequence is cut. */
function tail(output: string): string {
  if (output.length <= KEPT_CHARACTERS * 1.25) return output
  const from = output.indexOf('\n', output.length - KEPT_CHARACTERS)
  return output.slice(from === -1 ? output.length - KEPT_CHARACTERS : from + 1)
}

const sendNews = (page: WebSocket, ended: string) => page.send(JSON.stringify({ ended } satisfies TerminalNews))

function resize({ pty }: Terminal, data: Buffer): void {
  let asked: unknown
  try {
    asked = JSON.parse(data.toString())
  } catch {
    return
  }
  const size = TERMINAL_REQUEST.safeParse(asked)
  if (!size.success) return
  try {
    pty.resize(size.data.columns, size.data.rows)
  } catch {
    // A shell's terminal is closed (EBADF) before its end is reported, or without it.
  }
}

/** Signals everything in the session of a pseudo terminal: its shell, and the process groups that the shell made. */
function endSession(leader: number, signal: NodeJS.Signals): void {
  for (const pid of membersOf(leader)) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has already ended.
    }
  }
}

/** The processes of a session (field 6 of /proc/PID/stat); where there is no /proc, its leader. */
function membersOf(leader: number): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0 && sessionOf(pid) === leader)
  } catch {
    return [leader]
  }
}

function sessionOf(pid: number): number | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields[0] === 'Z' ? undefined : Number(fields[3])
  } catch {
    return undefined
  }
}
