import { readdirSync, readFileSync } from 'node:fs'

/** The words of /proc/PID/stat behind the name, which may hold anything; undefined for a process that is gone. */
function statOf(pid: number | string): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

const SESSION = 3
const USER_TICKS = 11
const SYSTEM_TICKS = 12
const TICK_NANOS = 10_000_000

/**
 * The processes of a User-Mode Linux kernel, by one of them: it is a session of its own, with a process for each address space
 * of the guest.
 */
export function processesOfKernel(pid: number): number[] {
  const session = statOf(pid)?.[SESSION]
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && statOf(name)?.[SESSION] === session)
    .map(Number)
}

/**
 * Processor time that these processes have used so far, in nanoseconds: what the scheduler counts (/proc/PID/schedstat), or, where
 * the host's kernel does not tell that, hundredths of a second (/proc/PID/stat).
 */
export function cpuNanos(pids: readonly number[]): number {
  return pids.reduce((total, pid) => total + nanosOf(pid), 0)
}

function nanosOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0])
  } catch {
    const stat = statOf(pid)
    return (Number(stat?.[USER_TICKS] ?? 0) + Number(stat?.[SYSTEM_TICKS] ?? 0)) * TICK_NANOS
  }
}
