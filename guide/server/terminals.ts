// The terminals of the page: shells in pseudo terminals of this machine; several pages can show the same one.

import { existsSync, readdirSync } from 'node:fs'
import type { IPty } from '@lydell/node-pty'
import serialize from '@xterm/addon-serialize'
import headless from '@xterm/headless'
import type { WebSocket } from 'ws'
import { processStat } from '../../host/live-process.ts'
import { isMetWithin } from '../../host/wait.ts'
import { TERMINAL_REQUEST, type TerminalsPush } from '../protocol.ts'
import { MOST_WAITING } from './hub.ts'

/** The place of the user's own shell. */
export const HOST = 'host'
/** The lines above the screen that are kept for pages that connect later. */
const SCROLLBACK = 2000
/** Output that is not yet on the screen: beyond it the shell waits. */
const MOST_UNREAD = 2 ** 18
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
  start: () => IPty
  pty: IPty
  /** What the terminal shows, so that a page that connects later is sent the screen and none of the sequences that led to it. */
  screen: InstanceType<typeof headless.Terminal>
  snapshot: InstanceType<typeof serialize.SerializeAddon>
  pages: Set<WebSocket>
  /** The line that is being typed; undefined where it was edited in a way that only the shell understands. */
  line: string | undefined
  hasEnded: boolean
}

interface TerminalOptions {
  /** What runs at a place. */
  commandFor(place: string): ShellCommand
  /** Is told which terminals there are. */
  onChange(push: TerminalsPush): void
  /** A command was typed, and which, if the shell edits lines itself and the line was typed from its beginning to its end. */
  onCommand(command: string | undefined): void
}

export class Terminals {
  readonly #options: TerminalOptions
  readonly #terminals = new Map<string, Terminal>()
  readonly #onExit = () => void this.#killAll('SIGKILL')
  #count = 0
  #trouble: string | undefined

  constructor(options: TerminalOptions) {
    this.#options = options
    // However the process ends, no shell outlives it.
    process.once('exit', this.#onExit)
  }

  /** Opens a terminal and returns its id. Throws Error with a sentence if there can be none, which the pages are told, too. */
  async open(place: string): Promise<string> {
    const { file, words, env, cwd } = this.#options.commandFor(place)
    const { spawn } = await this.#library()
    // Nothing is awaited between this and the new entry, so that many requests at once do not pass it.
    if (this.#terminals.size >= MOST)
      throw new Error(`There are ${MOST} terminals already: close one of them before you open another.`)
    const id = `t${++this.#count}`
    const same = [...this.#terminals.values()].filter((other) => other.place === place).length
    const title = same === 0 ? place : `${place} (${same + 1})`
    const screen = new headless.Terminal({ ...SIZE, scrollback: SCROLLBACK, allowProposedApi: true })
    const snapshot = new serialize.SerializeAddon()
    screen.loadAddon(snapshot)
    const pages = new Set<WebSocket>()
    const start = () => {
      const pty = spawn(file, words, { cols: screen.cols, rows: screen.rows, name: 'xterm-256color', cwd, env })
      let unread = 0
      const show = (text: string) => {
        unread += text.length
        if (unread > MOST_UNREAD) pty.pause()
        screen.write(text, () => {
          unread -= text.length
          if (unread <= MOST_UNREAD) pty.resume()
          for (const page of pages) {
            // It connects again and is sent the screen as it is then.
            if (page.bufferedAmount > MOST_WAITING) page.terminate()
            else page.send(Buffer.from(text))
          }
        })
      }
      pty.onData(show)
      pty.onExit(({ exitCode }) => {
        terminal.hasEnded = true
        show(
          `\r\n\x1b[33mThe shell at "${title}" has ended with exit code ${exitCode}. Press Enter to start it again.\x1b[0m\r\n`,
        )
      })
      return pty
    }
    const terminal: Terminal = {
      id,
      place,
      title,
      start,
      pty: start(),
      screen,
      snapshot,
      pages,
      line: '',
      hasEnded: false,
    }
    this.#terminals.set(id, terminal)
    this.#tell()
    return id
  }

  /** Shows a terminal to a page: its screen, then what it prints. False if there is no terminal of that id. */
  attach(id: string, page: WebSocket): boolean {
    const terminal = this.#terminals.get(id)
    if (!terminal) return false
    const { screen, snapshot, pages } = terminal
    // Behind the output that is not yet on the screen.
    screen.write('', () => {
      page.send(Buffer.from(snapshot.serialize()))
      if (page.readyState === page.OPEN) pages.add(page)
    })
    page.on('close', () => pages.delete(page))
    page.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.#type(terminal, data.toString())
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
    if (!terminal.hasEnded) endSession(terminal.pty.pid, 'SIGHUP')
    this.#tell()
  }

  /** Ends every shell and the processes that it started; those that ignore the hang-up are killed. */
  async end(): Promise<void> {
    for (const signal of ['SIGHUP', 'SIGKILL'] as const) {
      const left = this.#killAll(signal)
      await isMetWithin(END_MS, async () => left.every((pid) => membersOf(pid).length === 0))
    }
    process.off('exit', this.#onExit)
  }

  #killAll(signal: NodeJS.Signals): number[] {
    const pids = [...this.#terminals.values()].map(({ pty }) => pty.pid)
    for (const pid of pids) endSession(pid, signal)
    return pids
  }

  #type(terminal: Terminal, text: string): void {
    if (terminal.hasEnded) {
      if (!text.includes('\r')) return
      terminal.hasEnded = false
      terminal.pty = terminal.start()
      return
    }
    terminal.pty.write(text)
    if (!text.includes('\r')) {
      terminal.line = lineAfter(terminal.line, text)
      return
    }
    const [rest = ''] = text.split('\r')
    const line = lineAfter(terminal.line, rest)
    terminal.line = ''
    // A shell with bracketed paste switches it on while it waits for a command; what a program reads may be a password.
    this.#options.onCommand(terminal.screen.modes.bracketedPasteMode ? line?.trim() || undefined : undefined)
  }

  #tell(): void {
    const terminals = [...this.#terminals.values()].map(({ id, place, title }) => ({ id, place, title }))
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

/** A line after further keys: undefined as soon as one of them is more than a letter, Backspace, Ctrl-C or Ctrl-U. */
function lineAfter(line: string | undefined, keys: string): string | undefined {
  let after = line
  for (const key of keys) {
    if (key === '\x03' || key === '\x15') after = ''
    else if (key === '\x7f') after = after?.slice(0, -1)
    else if (key < ' ') after = undefined
    else if (after !== undefined) after += key
  }
  return after
}

function resize({ pty, screen }: Terminal, data: Buffer): void {
  let asked: unknown
  try {
    asked = JSON.parse(data.toString())
  } catch {
    return
  }
  const size = TERMINAL_REQUEST.safeParse(asked)
  if (!size.success) return
  const { columns, rows } = size.data
  screen.resize(columns, rows)
  try {
    pty.resize(columns, rows)
  } catch {
    // The shell has ended.
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

/** The processes of a session; where there is no /proc, its leader. */
function membersOf(leader: number): number[] {
  if (!existsSync('/proc')) return [leader]
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      const { state, session } = processStat(pid) ?? {}
      return state !== 'Z' && session === leader
    })
}
