import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import { processStartTime } from './embedded/state-file.ts'

/** A process by number and start time: a number that was given to another process has another one. */
const Noted = z.object({ pid: z.number().int().positive(), startTime: z.string() })

/** Start times can be read where there is /proc; elsewhere a number alone must do. */
const hasProc = existsSync('/proc/self/stat')
const startTimeOf = (pid: number) => (hasProc ? processStartTime(pid) : isThere(pid) ? 'unknown' : undefined)

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Notes a process of ours in a file, so that a later command finds it. */
export function noteProcess(file: string, pid: number): void {
  const startTime = startTimeOf(pid)
  if (startTime !== undefined) writeFileSync(file, `${JSON.stringify({ pid, startTime })}\n`, { mode: 0o600 })
}

/** The number of the process that a file notes, as long as that very process lives. */
export function notedProcess(file: string): number | undefined {
  try {
    const { pid, startTime } = Noted.parse(JSON.parse(readFileSync(file, 'utf8')))
    return startTimeOf(pid) === startTime ? pid : undefined
  } catch {
    return undefined
  }
}

export function forgetProcess(file: string): void {
  rmSync(file, { force: true })
}
