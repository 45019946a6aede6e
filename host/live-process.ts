import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { processStartTime } from '../embedded/state-file.ts'

/** A process by number and start time: a number that was given to another process has another one. */
interface Noted {
  pid: number
  startTime: string
}

/** By hand: every command comes this way, and loading a library for it would take a fifth of a second. */
function isNoted(value: unknown): value is Noted {
  const { pid, startTime }: Partial<Record<keyof Noted, unknown>> = Object(value)
  return Number.isInteger(pid) && Number(pid) > 0 && typeof startTime === 'string'
}

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
    const noted: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isNoted(noted) && startTimeOf(noted.pid) === noted.startTime ? noted.pid : undefined
  } catch {
    return undefined
  }
}

export function forgetProcess(file: string): void {
  rmSync(file, { force: true })
}
