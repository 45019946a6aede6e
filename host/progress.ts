import { chalk } from 'zx/core'
import { rawOutput } from './output.ts'
import { plainText } from './plain-text.ts'
import { linesFor } from './wrap-lines.ts'

/** Shows the progress of long work: a line that begins, and ends with success or failure. */
export interface Progress {
  start(what: string): void
  /** The current state of the work, in a few words: `12 MB`. */
  update?(detail: string): void
  end(ok: boolean, detail?: string): void
  note(line: string): void
}

/** Shows nothing. */
export const silent: Progress = { start() {}, end() {}, note() {} }

/**
 * Does work and shows it: a line that begins, and ends with success, or with failure if the work
 * throws. Resolves to its result.
 */
export async function withProgress<T>(
  progress: Progress,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  progress.start(what)
  try {
    const result = await work()
    progress.end(true)
    return result
  } catch (error) {
    progress.end(false)
    throw error
  }
}

/** A terminal is updated each second; a log gets a line only for long work. */
const liveTickMs = 1000
const logTickMs = 15_000

/**
 * Status lines on standard error: ` • Booting the kernel … 2 s`, updated while it runs, and then
 * ` ✓ Booting the kernel (2.3 s)`. On a terminal the second replaces the first; without one, or for
 * a screen reader (TERM=dumb), each is a separate line.
 */
export function createProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  const live = stream.isTTY === true && process.env.TERM !== 'dumb'
  const out = live ? rawOutput(stream) : stream
  let current: { what: string; since: number; detail: string; ticker: NodeJS.Timeout } | undefined
  const replace = (line: string) => out.write(live ? `\r\x1b[K${line}\n` : `${line}\n`)
  const tick = () => {
    if (!current) return
    const { what, since, detail } = current
    const passed = [
      ...(detail ? [detail] : []),
      `${Math.round((Date.now() - since) / 1000)} s`,
    ].join(', ')
    out.write(
      live
        ? `\r\x1b[K ${fitting(`• ${what} … ${passed}`, stream.columns)}`
        : ` • ${what} … ${passed}\n`,
    )
  }
  const finish = () => {
    clearInterval(current?.ticker)
    current = undefined
  }
  return {
    start(text) {
      const what = plainText(text)
      finish()
      const ticker = setInterval(tick, live ? liveTickMs : logTickMs).unref()
      current = { what, since: Date.now(), detail: '', ticker }
      out.write(live ? ` • ${what} …` : ` • ${what} …\n`)
    },
    update(detail) {
      if (current) current.detail = plainText(detail)
    },
    end(ok, detail) {
      if (!current) return
      const seconds = `${((Date.now() - current.since) / 1000).toFixed(1)} s`
      const mark = ok ? chalk.green('✓') : chalk.red('✗')
      replace(` ${mark} ${current.what} (${detail ? `${plainText(detail)}, ` : ''}${seconds})`)
      finish()
    },
    note(line) {
      replace(linesFor(live ? stream : {}, plainText(line), ' • ').join('\n'))
      if (live && current) out.write(` • ${current.what} …`)
    },
  }
}

/** A line longer than the terminal's width could not be replaced. */
const fitting = (line: string, columns = 80) =>
  line.length + 2 > columns ? `${line.slice(0, columns - 3)}…` : line
