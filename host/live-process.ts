import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { waitFor } from './wait.ts'

/** A process by ID and start time: when the ID is reused, the start time differs. */
export interface NotedProcess {
  pid: number
  startTime: string
}

/** Start times are in /proc; on systems without it only the process ID is compared. */
const hasProc = existsSync('/proc/self/stat')

/**
 * The start time of a running process (field 22 of /proc/PID/stat; `unknown` if there is no /proc),
 * or undefined if it does not run. Zombies count as ended.
 */
export function processStartTime(pid: number): string | undefined {
  if (!hasProc) return isThere(pid) ? 'unknown' : undefined
  const { state, startTime } = processStat(pid) ?? {}
  return state === 'Z' ? undefined : startTime
}

/** What /proc/PID/stat tells of a process (proc_pid_stat(5)); undefined if it does not run. */
export function processStat(
  pid: number | string,
): { state?: string; parent: number; session: number; startTime?: string } | undefined {
  try {
    // The second field is the program's name in parentheses, which may contain spaces.
    const [state, parent, ...fields] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return { state, parent: Number(parent), session: Number(fields[1]), startTime: fields[17] }
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

/** Whether that process still runs. */
export const isLive = ({ pid, startTime }: NotedProcess) => processStartTime(pid) === startTime

/**
 * A running process as it is told from a later one with the same ID; undefined if it does not run.
 */
export function runningProcess(pid: number): NotedProcess | undefined {
  const startTime = processStartTime(pid)
  return startTime === undefined ? undefined : { pid, startTime }
}

/** Records one of our processes in a file, with more about it, so that a later command finds it. */
export function noteProcess(file: string, pid: number, more: object = {}): void {
  const running = runningProcess(pid)
  if (!running) return
  writeFileSync(`${file}.new`, `${JSON.stringify({ ...running, ...more })}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
}

/** The ID of the process recorded in a file, if it still runs. */
export function notedProcess(file: string): number | undefined {
  try {
    const noted: NotedProcess = JSON.parse(readFileSync(file, 'utf8'))
    return noted.startTime !== undefined && isLive(noted) ? noted.pid : undefined
  } catch {
    return undefined
  }
}

/**
 * Ends the process recorded in a file, if it still runs, and forgets it; `what` names it in the
 * error of a process that stays.
 */
export async function endNotedProcess(
  file: string,
  signal: 'SIGTERM' | 'SIGKILL',
  what: string,
): Promise<void> {
  const pid = notedProcess(file)
  if (pid !== undefined) {
    process.kill(pid, signal)
    await waitFor(`${what} to end`, 10_000, async () => notedProcess(file) === undefined)
  }
  forgetProcess(file)
}

export function forgetProcess(file: string): void {
  rmSync(file, { force: true })
}
