import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'

/** A process by number and start time: a number that was given to another process has another one. */
export interface NotedProcess {
  pid: number
  startTime: string
}

/** By hand: every command comes this way, and loading a library for it would take a fifth of a second. */
function isNoted(value: unknown): value is NotedProcess {
  const { pid, startTime }: Partial<Record<keyof NotedProcess, unknown>> = Object(value)
  return Number.isInteger(pid) && Number(pid) > 0 && typeof startTime === 'string'
}

/** Start times can be read where there is /proc; elsewhere a number alone must do. */
const hasProc = existsSync('/proc/self/stat')

/**
 * When a live process started (field 22 of /proc/PID/stat; `unknown` where there is no /proc), or undefined when there is none.
 * Zombies count as gone.
 */
export function processStartTime(pid: number): string | undefined {
  if (!hasProc) return isThere(pid) ? 'unknown' : undefined
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Whether that very process lives. */
export const isLive = ({ pid, startTime }: NotedProcess) => processStartTime(pid) === startTime

/** Notes a process of ours in a file, so that a later command finds it. */
export function noteProcess(file: string, pid: number): void {
  const startTime = processStartTime(pid)
  if (startTime !== undefined) writeFileSync(file, `${JSON.stringify({ pid, startTime })}\n`, { mode: 0o600 })
}

/** The number of the process that a file notes, as long as that very process lives. */
export function notedProcess(file: string): number | undefined {
  try {
    const noted: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isNoted(noted) && isLive(noted) ? noted.pid : undefined
  } catch {
    return undefined
  }
}

export function forgetProcess(file: string): void {
  rmSync(file, { force: true })
}
