import { chalk } from 'zx/core'
import type { Progress } from '../cluster/driver.ts'
import { rawOutput } from './output.ts'
import { plainText } from './plain-text.ts'

/**
 * Status lines on standard error: ` • Booting the kernel` and then ` ✓ Booting the kernel (1.3 s)`. With a terminal the
 * second replaces the first; without one, or for a screen reader (TERM=dumb), each is a line of its own.
 */
export function createProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  const live = stream.isTTY === true && process.env.TERM !== 'dumb'
  const out = live ? rawOutput(stream) : stream
  let current: { what: string; since: number } | undefined
  const replace = (line: string) => out.write(live ? `\r\x1b[K${line}\n` : `${line}\n`)
  return {
    start(text) {
      const what = plainText(text)
      current = { what, since: Date.now() }
      out.write(live ? ` • ${what} …` : ` • ${what} …\n`)
    },
    end(ok, detail) {
      if (!current) return
      const seconds = `${((Date.now() - current.since) / 1000).toFixed(1)} s`
      const mark = ok ? chalk.green('✓') : chalk.red('✗')
      replace(` ${mark} ${current.what} (${detail ? `${plainText(detail)}, ` : ''}${seconds})`)
      current = undefined
    },
    note(line) {
      replace(` • ${plainText(line)}`)
      if (live && current) out.write(` • ${current.what} …`)
    },
  }
}
