// The guide's input and output on a terminal: translates keys into events, and paints states as a screen or as plain lines.

import { createInterface, emitKeypressEvents, type Key } from 'node:readline'
import { chalk } from 'zx/core'
import { rawOutput } from '../../host/output.ts'
import type { GuideEvent, GuideState } from './guide-state.ts'
import { drawScreen, MIN_WIDTH, plainLines } from './guide-view.ts'
import { PLAIN, type Row, type Style } from './terminal-text.ts'

interface GuideTerminal {
  show(state: GuideState): void
  /** Takes the terminal, at first and after it was released. */
  take(): void
  /** Releases it: to work that prints, or at the end. */
  release(): void
}

const COLOURED: Style = {
  strong: chalk.bold,
  emphasis: chalk.italic,
  code: chalk.cyan,
  dim: chalk.dim,
}

/**
 * True if the guide prints plain lines: on a terminal without cursor control (TERM=dumb), without control characters (NO_COLOR), or for
 * screen readers (PLAIN=1).
 */
export const isPlain = ({ TERM, NO_COLOR, PLAIN: lines } = process.env): boolean =>
  TERM === 'dumb' || Boolean(NO_COLOR) || Boolean(lines)

/** The terminal of this process. */
export const ownTerminal = (send: (event: GuideEvent) => void): GuideTerminal =>
  isPlain() ? plainTerminal(send) : screenTerminal(send)

/** The guide's key names, by those of node:readline. */
const KEY_NAMES: Record<string, string> = {
  return: 'enter',
  enter: 'enter',
  escape: 'escape',
  backspace: 'backspace',
}

function screenTerminal(send: (event: GuideEvent) => void): GuideTerminal {
  const { stdin, stdout } = process
  const out = rawOutput(stdout)
  let state: GuideState | undefined
  let screen: ReturnType<typeof drawScreen> = { rows: [], page: 1, maxScroll: 0 }
  let pasting = false

  const paint = () => {
    if (!state) return
    const size = { columns: stdout.columns || 80, rows: stdout.rows || 24 }
    const painted = screen.rows
    screen = drawScreen(state, size, COLOURED)
    out.write(changedRows(painted, screen.rows))
  }
  const repaint = () => {
    screen.rows = []
    out.write('\x1b[2J')
    paint()
  }
  const scroll = (by: number) => {
    if (!state) return
    const { maxScroll } = screen
    const to = Math.max(0, Math.min(maxScroll, Math.min(state.scroll, maxScroll) + by))
    if (to !== state.scroll) send({ type: 'scroll', to })
  }
  const onKey = (character: string | undefined, key: Key) => {
    const { page, maxScroll } = screen
    if (key.name === 'paste-start' || key.name === 'paste-end') pasting = key.name === 'paste-start'
    else if (key.ctrl && (key.name === 'c' || key.name === 'd')) send({ type: 'key', key: 'quit' })
    else if (key.ctrl && key.name === 'l') repaint()
    else if (pasting && state?.typed === undefined) return
    else if (key.name === 'up' || key.name === 'down') scroll(key.name === 'up' ? -1 : 1)
    else if (key.name === 'pageup' || key.name === 'pagedown')
      scroll(key.name === 'pageup' ? -page : page)
    else if (key.name === 'home' || key.name === 'end')
      scroll(key.name === 'home' ? -maxScroll : maxScroll)
    else if (key.name === 'space' && state?.typed === undefined) scroll(page)
    else if (KEY_NAMES[key.name ?? ''] !== undefined)
      send({ type: 'key', key: KEY_NAMES[key.name ?? ''] ?? '' })
    else if (character !== undefined && !key.ctrl && !key.meta)
      send({ type: 'key', key: character })
  }
  let isTaken = false
  const take = () => {
    isTaken = true
    stdin.setRawMode(true)
    stdin.resume()
    stdin.on('keypress', onKey)
    stdout.on('resize', repaint)
    // Alternate screen, hidden cursor, bracketed paste.
    out.write('\x1b[?1049h\x1b[?25l\x1b[?2004h')
    repaint()
  }
  const release = () => {
    if (!isTaken) return
    isTaken = false
    stdin.off('keypress', onKey)
    stdout.off('resize', repaint)
    stdin.setRawMode(false)
    stdin.pause()
    out.write('\x1b[?2004l\x1b[?25h\x1b[?1049l')
  }
  emitKeypressEvents(stdin)
  // Restores the terminal when the process ends.
  process.once('exit', release)
  return {
    show(next) {
      state = next
      if (isTaken) paint()
    },
    take,
    release,
  }
}

/** The output that paints the rows of a screen that differ from those before. */
function changedRows(before: readonly Row[], rows: readonly Row[]): string {
  let text = ''
  for (const [index, row] of rows.entries()) {
    const next = rows[index + 1]
    const was = before[index]
    const same = was?.text === row.text && was.joined === row.joined && !row.joined && !next?.joined
    if (same) continue
    // A wrapped row fills its line and the terminal wraps it itself, so that selecting and copying returns one line.
    text += row.joined ? row.text : `\x1b[${index + 1};1H\x1b[K${row.text}`
    if (row.joined && !next?.joined) text += '\x1b[K'
  }
  return text
}

/** Waits for a line on a released terminal, or for its end. */
export function waitForEnter(prompt: string): Promise<void> {
  console.log(prompt)
  const lines = createInterface({ input: process.stdin })
  return new Promise((resolve) => {
    lines.once('close', resolve)
    lines.once('line', () => lines.close())
  })
}

function plainTerminal(send: (event: GuideEvent) => void): GuideTerminal {
  let shown: GuideState | undefined
  let lines: ReturnType<typeof createInterface> | undefined
  return {
    show(state) {
      // A check that was running when the learner quit ends later.
      if (!lines) return
      const width = Math.max(MIN_WIDTH, process.stdout.columns || 80)
      const typing = state.typed !== undefined && state.typed !== ''
      if (!typing) for (const line of plainLines(state, shown, width, PLAIN)) console.log(line)
      shown = state
    },
    take() {
      const reader = createInterface({ input: process.stdin })
      reader.on('line', (line) => {
        const word = line.trim()
        if (shown?.typed === undefined)
          return send({ type: 'key', key: word === '' ? 'enter' : word.slice(0, 1) })
        for (const character of word) send({ type: 'key', key: character })
        send({ type: 'key', key: 'enter' })
      })
      reader.on('SIGINT', () => send({ type: 'key', key: 'quit' }))
      reader.on('close', () => reader === lines && send({ type: 'key', key: 'quit' }))
      lines = reader
    },
    release() {
      const reader = lines
      lines = undefined
      reader?.close()
    },
  }
}
