import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import type { z } from 'zod'
import type { TERMINAL_REQUEST } from '../protocol.ts'
import { performAction, RETRY_MS, socketTo } from './connection.ts'
import { chooseLetters, lettersFor } from './layout.tsx'
import { now, say, update } from './store.ts'

const SCREEN_READER = 'guide-screen-reader'
/** The sequence that resets a terminal (RIS). */
const RESET = '\x1bc'
const ESCAPE = '\x1b'
/**
 * An Escape goes to the shell after this time, or with the next key: long enough for slow fingers,
 * and for a busy machine, to press Tab after it.
 */
const ESCAPE_MS = 2000
/**
 * Output in bytes that is not yet shown: beyond it the rest is left out, and the terminal begins
 * again with its screen.
 */
const MOST_UNSHOWN = 2 ** 22

/** One terminal of the server as this page shows it: an element that tabs can show and hide. */
export class TerminalView {
  readonly id: string
  readonly element = document.createElement('div')
  readonly #terminal = new Terminal({
    cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
    fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
    fontSize: 13,
    scrollback: 5000,
    screenReaderMode: isReadAloud(),
    theme: {
      background: '#10161c',
      foreground: '#e4eaf0',
      cursor: '#7db8f5',
      selectionBackground: '#3b5878',
    },
  })
  readonly #fit = new FitAddon()
  readonly #encoder = new TextEncoder()
  #socket: WebSocket
  #opened = false
  #closed = false
  #unshown = 0
  /** Output has come below what is shown, because the learner has scrolled up. */
  #isBehind = false

  constructor(id: string) {
    this.id = id
    this.element.className = 'terminal'
    this.#terminal.loadAddon(this.#fit)
    this.#terminal.onData((text) => this.#send(text))
    this.#terminal.onResize(() => this.#tellSize())
    this.#terminal.onWriteParsed(() => this.#noteBehind(!this.#isAtEnd))
    this.#terminal.onScroll(() => this.#isAtEnd && this.#noteBehind(false))
    // A link shows one address and opens another: what a node prints is text.
    this.#terminal.parser.registerOscHandler(8, () => true)
    this.#leaveWithEscapeThenTab()
    this.#socket = this.#connect()
    new ResizeObserver(() => this.resize()).observe(this.element)
  }

  /** Shows it in a place of the page. */
  showIn(place: HTMLElement): void {
    place.replaceChildren(this.element)
    if (!this.#opened) this.#terminal.open(this.element)
    this.#opened = true
    this.resize()
  }

  focus(): void {
    this.#terminal.focus()
  }

  /** Output has come that is below what is shown. */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** Shows the latest output. */
  toEnd(): void {
    this.#terminal.scrollToBottom()
    this.#noteBehind(false)
  }

  /** The size of its letters in pixels. */
  get letters(): number {
    return this.#terminal.options.fontSize ?? 0
  }

  get #isAtEnd(): boolean {
    const { viewportY, baseY } = this.#terminal.buffer.active
    return viewportY >= baseY
  }

  #noteBehind(isBehind: boolean): void {
    if (isBehind === this.#isBehind) return
    this.#isBehind = isBehind
    update({})
  }

  readAloud(on: boolean): void {
    this.#terminal.options.screenReaderMode = on
  }

  close(): void {
    this.#closed = true
    this.#socket.close()
    this.#terminal.dispose()
  }

  /**
   * Connects to the server, which first sends the screen, and again whenever the connection ends.
   */
  #connect(): WebSocket {
    const socket = socketTo(`/terminal/${this.id}`)
    socket.binaryType = 'arraybuffer'
    socket.onopen = () => {
      this.#terminal.write(RESET)
      this.#tellSize()
    }
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      this.#unshown += data.byteLength
      this.#terminal.write(new Uint8Array(data), () => {
        this.#unshown -= data.byteLength
      })
      if (this.#unshown > MOST_UNSHOWN) socket.close()
    }
    socket.onclose = () => {
      const again = () => {
        if (!this.#closed) this.#socket = this.#connect()
      }
      setTimeout(() => this.#terminal.write('', again), RETRY_MS)
    }
    return socket
  }

  #send(text: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(this.#encoder.encode(text))
  }

  #tellSize(): void {
    const { cols: columns, rows } = this.#terminal
    const request: z.infer<typeof TERMINAL_REQUEST> = { columns, rows }
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(request))
  }

  /** Fits its letters and columns to the room that it has. */
  resize(): void {
    const { isConnected, clientWidth } = this.element
    if (!isConnected || clientWidth === 0) return
    this.#terminal.options.fontSize = lettersFor(clientWidth)
    this.#fit.fit()
  }

  /** A Tab belongs to the shell, so the keyboard leaves by Escape and then Tab. */
  #leaveWithEscapeThenTab(): void {
    let pendingEscape: ReturnType<typeof setTimeout> | undefined
    const sendEscape = () => {
      if (pendingEscape === undefined) return
      clearTimeout(pendingEscape)
      pendingEscape = undefined
      this.#send(ESCAPE)
    }
    this.#terminal.attachCustomKeyEventHandler(({ type, key, altKey }) => {
      if (type !== 'keydown' || key === 'Shift') return true
      if (key === 'Tab' && pendingEscape !== undefined) {
        // The shell gets neither of the two.
        clearTimeout(pendingEscape)
        pendingEscape = undefined
        return false
      }
      sendEscape()
      if (key === 'Escape') {
        pendingEscape = setTimeout(sendEscape, ESCAPE_MS)
        return false
      }
      // These show another tab; other shortcuts are the shell's own while one types in it.
      return !(altKey && /^[1-5]$/.test(key))
    })
  }
}

const views = new Map<string, TerminalView>()

/** Whether terminals are read aloud by a screen reader, as was chosen in this browser. */
export const isReadAloud = (): boolean => localStorage.getItem(SCREEN_READER) === 'on'

/** Chooses whether terminals are read aloud. */
export function readAloud(on: boolean): void {
  localStorage.setItem(SCREEN_READER, on ? 'on' : 'off')
  for (const view of views.values()) view.readAloud(on)
}

/**
 * Makes the letters of all terminals larger or smaller by a number of pixels; without it, as large
 * as the room allows.
 */
export function growLetters(by?: number): void {
  const [first] = views.values()
  chooseLetters(by === undefined || !first ? undefined : first.letters + by)
  for (const view of views.values()) view.resize()
}

/** The view of a terminal of the server, made when it is first needed. */
export function terminalView(id: string): TerminalView {
  const view = views.get(id) ?? new TerminalView(id)
  views.set(id, view)
  return view
}

/** Removes the views of terminals that have ended. */
export function keepViews(ids: readonly string[]): void {
  for (const [id, view] of views)
    if (!ids.includes(id)) {
      view.close()
      views.delete(id)
    }
}

/**
 * Has commands of the text typed into a terminal on the host: the one that is shown, else the
 * first, else a new one. The labs' commands are made for the host; a node has neither kubectl nor
 * make. `key` names the block of commands in the lab.
 */
export async function runOnHost(key: string, text: string): Promise<void> {
  const { terminals, terminal } = now()
  const reply = await performAction('run', {
    key,
    text,
    ...(terminal !== undefined && { terminal }),
  })
  if (!reply) return
  const { terminal: id } = reply
  update({ terminal: id, tab: 'terminals' })
  const title = terminals?.terminals.find((one) => one.id === id)?.title ?? 'host'
  say(`Typing into the terminal ${title}`)
  terminalView(id).element.scrollIntoView({ block: 'nearest' })
  terminalView(id).toEnd()
}

/** Opens a terminal and shows it; undefined if there can be none, which the page then says. */
export async function openTerminal(place: string): Promise<string | undefined> {
  const id = (await performAction('open-terminal', { place }))?.id
  if (id !== undefined) update({ terminal: id })
  return id
}
