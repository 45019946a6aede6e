// A shell in a pseudo terminal of this machine; several pages can show the same one.

import { existsSync, readdirSync } from 'node:fs'
import type { IPty, spawn } from '@lydell/node-pty'
import serialize from '@xterm/addon-serialize'
import headless from '@xterm/headless'
import type { WebSocket } from 'ws'
import { processStat } from '../../host/live-process.ts'
import { MOST_WAITING } from '../../web/hub.ts'
import { TERMINAL_REQUEST } from '../protocol.ts'
import { showLastOutput } from './last-output.ts'
import { type EndedCommand, Prompt } from './prompt.ts'
import type { ShellCommand } from './shell-command.ts'

/** The lines above the screen that are kept for pages that connect later. */
const SCROLLBACK = 2000
/** Output that is not yet on the screen: beyond it the shell waits. */
const MOST_UNREAD = 2 ** 18
const SIZE = { cols: 100, rows: 30 }

/** What a terminal reports. */
export interface TerminalReports {
  /**
   * A command starts: which, if the shell tells it or the line was typed from its beginning to its
   * end. Where the shell does not mark the end of commands, this is all that is known.
   */
  started(command: string | undefined): void
  /** The command has ended. */
  ended(): void
  /** A page has typed Ctrl-C, or the terminal was closed. */
  interrupted(): void
}

/**
 * Ctrl-U, twice: the first ends a sequence that Escape has begun, as it does when the keyboard
 * leaves the terminal (the next letter would belong to it), the second deletes what was typed but
 * not sent.
 */
const EMPTY_LINE = '\x15\x15'
/**
 * The marks of guide/shell/bashrc behind its own word: a prompt, a command with its text, its end
 * with its exit status.
 */
const MARK = /^([ACD]);(\w+)(?:;(.*))?$/s

/** What a terminal uses of the connection to a page. */
export interface PageSocket
  extends Pick<WebSocket, 'OPEN' | 'readyState' | 'bufferedAmount' | 'close' | 'terminate'> {
  send(data: Buffer): void
  on(event: 'close', listener: () => void): unknown
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): unknown
}

export class Terminal {
  readonly place: string
  readonly title: string
  readonly #command: ShellCommand
  readonly #spawn: typeof spawn
  readonly #reports: TerminalReports
  readonly #prompt: Prompt
  /**
   * What the terminal shows, so that a page that connects later is sent the screen and none of the
   * sequences that led to it.
   */
  readonly #screen = new headless.Terminal({
    ...SIZE,
    scrollback: SCROLLBACK,
    allowProposedApi: true,
  })
  readonly #snapshot = new serialize.SerializeAddon()
  readonly #pages = new Set<PageSocket>()
  #pty: IPty
  #hasEnded = false
  #isClosed = false
  /** The shell marks its prompts and commands. */
  #hasMarks = false
  /**
   * The line that is being typed; undefined where it was edited in a way that only the shell
   * understands.
   */
  #line: string | undefined = ''
  /**
   * Lines that pages have typed while a command ran: the shell takes them before any that is typed
   * later.
   */
  readonly #ahead: string[] = []

  constructor(
    place: string,
    title: string,
    command: ShellCommand,
    spawnPty: typeof spawn,
    reports: TerminalReports,
  ) {
    this.place = place
    this.title = title
    this.#command = command
    this.#spawn = spawnPty
    this.#reports = reports
    this.#prompt = new Prompt(command.mark !== undefined)
    this.#screen.loadAddon(this.#snapshot)
    this.#readMarks()
    this.#pty = this.#start()
  }

  /** The process ID of the shell, which leads its session. */
  get pid(): number {
    return this.#pty.pid
  }

  /** Shows the screen to a page, then what is printed, and takes what it types. */
  attach(page: PageSocket): void {
    // Behind the output that is not yet on the screen.
    this.#screen.write('', () => {
      page.send(Buffer.from(this.#snapshot.serialize()))
      if (page.readyState === page.OPEN) this.#pages.add(page)
    })
    page.on('close', () => this.#pages.delete(page))
    page.on('message', (data, isBinary) => {
      if (isBinary) this.#type(data.toString())
      else this.#resize(data)
    })
  }

  /**
   * Types a line when the shell waits for a command, in place of what was typed there but not sent,
   * and waits for the end of the command: without an exit status where the shell does not report
   * it. Types nothing if `isWanted` is false by then.
   */
  async enter(line: string, isWanted: () => boolean): Promise<EndedCommand> {
    await this.#prompt.wait()
    if (this.#hasEnded || this.#isClosed || !isWanted()) return {}
    const ended = this.#prompt.entered(line.trim(), this.#ahead.splice(0))
    this.#typed(`${EMPTY_LINE}${line.replaceAll('\n', '\r')}\r`)
    return ended
  }

  /** Types Ctrl-C. */
  interrupt(): void {
    if (!this.#hasEnded && !this.#isClosed) this.#pty.write('\x03')
  }

  /** Hangs up, and lets the pages go. */
  close(): void {
    this.#reports.interrupted()
    this.#isClosed = true
    this.#prompt.gone()
    for (const page of this.#pages) page.close()
    if (!this.#hasEnded) signalSession(this.pid, 'SIGHUP')
  }

  /** Starts the shell, and shows what it prints and that it has ended. */
  #start(): IPty {
    const { file, args, env, cwd } = this.#command
    const { cols, rows } = this.#screen
    const pty = this.#spawn(file, args, { cols, rows, name: 'xterm-256color', cwd, env })
    this.#line = ''
    this.#hasMarks = false
    let unread = 0
    const show = (text: string) => {
      unread += text.length
      if (unread > MOST_UNREAD) pty.pause()
      this.#screen.write(text, () => {
        unread -= text.length
        if (unread <= MOST_UNREAD) pty.resume()
        for (const page of this.#pages) {
          // It connects again and is sent the screen as it is then.
          if (page.bufferedAmount > MOST_WAITING) page.terminate()
          else page.send(Buffer.from(text))
        }
      })
    }
    pty.onData(show)
    showLastOutput(pty, show)
    pty.onExit(({ exitCode }) => {
      this.#hasEnded = true
      this.#reports.interrupted()
      this.#reports.ended()
      this.#prompt.gone()
      const ended = `The shell at "${this.title}" has ended with exit code ${exitCode}. Press Enter to start it again.`
      show(`\r\n\x1b[33m${ended}\x1b[0m\r\n`)
    })
    return pty
  }

  #type(keys: string): void {
    if (this.#hasEnded) {
      if (!keys.includes('\r')) return
      this.#hasEnded = false
      this.#pty = this.#start()
      return
    }
    if (keys.includes('\x03')) this.#reports.interrupted()
    const line = keys.includes('\r') ? lineAfter(this.#line, keys.split('\r')[0] ?? '') : undefined
    if (line !== undefined && !this.#prompt.isThere) this.#ahead.push(line.trim())
    this.#typed(keys)
  }

  /** Sends keys to the shell. A command of a shell without marks starts with Enter. */
  #typed(keys: string): void {
    const [line = '', ...more] = keys.split('\r')
    const isEntered = more.length > 0
    if (this.#isClosed) return
    this.#pty.write(keys)
    const typed = lineAfter(this.#line, line)
    this.#line = isEntered ? lineAfter('', more.at(-1) ?? '') : typed
    // A shell with bracketed paste switches it on while it waits for a command; what a program
    // reads may be a password.
    if (isEntered && !this.#hasMarks)
      this.#reports.started(
        this.#screen.modes.bracketedPasteMode ? typed?.trim() || undefined : undefined,
      )
  }

  /** Reads where the shell's prompts and commands begin and end. */
  #readMarks(): void {
    const { parser } = this.#screen
    for (const final of ['h', 'l'] as const)
      parser.registerCsiHandler({ prefix: '?', final }, (params) => {
        if (!params.includes(2004)) return false
        if (final === 'h') this.#prompt.shown(false)
        else this.#prompt.started(false)
        return false
      })
    parser.registerOscHandler(133, (data) => {
      const [, kind, word, text = ''] = MARK.exec(data) ?? []
      // What a program prints is no mark of the shell.
      if (kind === undefined || word !== this.#command.mark) return false
      this.#hasMarks = true
      if (kind === 'C') {
        const command = text.trim()
        this.#prompt.started(true, command)
        // Those before it were edited in a way that only the shell understands.
        this.#ahead.splice(0, this.#ahead.indexOf(command) + 1)
        this.#reports.started(command || undefined)
        return true
      }
      const status = /^\d{1,3}$/.test(text) ? { status: Number(text) } : {}
      if (kind === 'A' ? this.#prompt.shown(true) : this.#prompt.ended(status))
        this.#reports.ended()
      return true
    })
  }

  #resize(data: Buffer): void {
    let asked: unknown
    try {
      asked = JSON.parse(data.toString())
    } catch {
      return
    }
    const size = TERMINAL_REQUEST.safeParse(asked)
    if (!size.success) return
    const { columns, rows } = size.data
    this.#screen.resize(columns, rows)
    try {
      this.#pty.resize(columns, rows)
    } catch {
      // The shell has ended.
    }
  }
}

/**
 * A line after further keys: undefined as soon as one of them is more than a letter, Backspace,
 * Ctrl-C or Ctrl-U.
 */
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

/**
 * Signals everything in the session of a pseudo terminal: its shell, and the process groups that
 * the shell made.
 */
export function signalSession(leader: number, signal: NodeJS.Signals): void {
  for (const pid of membersOf(leader)) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has already ended.
    }
  }
}

/** The processes of a session; where there is no /proc, its leader. */
export function membersOf(leader: number): number[] {
  if (!existsSync('/proc')) return [leader]
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      const { state, session } = processStat(pid) ?? {}
      return state !== 'Z' && session === leader
    })
}
