import { chalk } from 'zx/core'
import type { Progress } from '../cluster/driver.ts'

/**
 * Status lines on standard error: ` • Booting the kernel` and then ` ✓ Booting the kernel (1.3 s)`. With a terminal the
 * second replaces the first; without one, or for a screen reader (TERM=dumb), each is a line of its own.
 */
export function createProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  const live = stream.isTTY === true && process.env.TERM !== 'dumb'
  let current: { what: string; since: number } | undefined
  const replace = (line: string) => stream.write(live ? `\r\x1b[K${line}\n` : `${line}\n`)
  return {
    start(what) {
      current = { what, since: Date.now() }
      stream.write(live ? ` • ${what} …` : ` • ${what} …\n`)
    },
    end(ok, detail) {
      if (!current) return
      const seconds = `${((Date.now() - current.since) / 1000).toFixed(1)} s`
      const mark = ok ? chalk.green('✓') : chalk.red('✗')
      replace(` ${mark} ${current.what} (${detail ? `${detail}, ` : ''}${seconds})`)
      current = undefined
    },
    note(line) {
      replace(` • ${line}`)
      if (live && current) stream.write(` • ${current.what} …`)
    },
  }
}
