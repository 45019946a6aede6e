import { createInterface, emitKeypressEvents } from 'node:readline'
import { rawOutput } from '../host/output.ts'

/** What a learner at the terminal may press. */
export type Key = 'a' | 'c' | 'h' | 's' | 'k' | 't' | 'r' | 'q'

/** The next key that means something. Raw mode lasts only as long as this waits; Ctrl-C and Ctrl-D quit. */
export function nextKey(signal: AbortSignal): Promise<Key> {
  const { stdin } = process
  emitKeypressEvents(stdin)
  return new Promise((resolve) => {
    const onKey = (_text: string | undefined, key: { name?: string; ctrl?: boolean }) => {
      const name = key.ctrl && (key.name === 'c' || key.name === 'd') ? 'q' : (key.name ?? '')
      if (isKey(name)) {
        stop()
        resolve(name)
      }
    }
    const stop = () => {
      stdin.off('keypress', onKey)
      signal.removeEventListener('abort', stop)
      if (stdin.isTTY) stdin.setRawMode(false)
      stdin.pause()
    }
    signal.addEventListener('abort', stop, { once: true })
    if (stdin.isTTY) stdin.setRawMode(true)
    stdin.resume()
    stdin.on('keypress', onKey)
  })
}

const isKey = (name: string): name is Key => /^[achsktrq]$/.test(name)

/** One line that the learner types; empty when the input ends or Ctrl-C interrupts it. */
export function askLine(prompt: string): Promise<string> {
  const { stdin, stdout } = process
  return new Promise((resolve) => {
    const lines = createInterface({ input: stdin, output: rawOutput(stdout) })
    let typed = ''
    lines.on('SIGINT', () => lines.close())
    lines.on('close', () => resolve(typed))
    lines.question(prompt, (line) => {
      typed = line
      lines.close()
    })
  })
}
