import { linkSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { forgetProcess, notedProcess, noteProcess } from './live-process.ts'
import { waitFor } from './wait.ts'

const patienceMs = 600_000
const gapMs = 100

/**
 * Does work that no other process of this machine does at the same time: whoever comes second waits until the file `lock` is
 * gone, or until the process that it names has ended. `onWait` is called once when there is somebody to wait for.
 * @throws DeadlineError when the other one works for longer than ten minutes
 */
export async function oneAtATime<T>(lock: string, work: () => Promise<T>, onWait?: () => void): Promise<T> {
  const own = `${lock}.${process.pid}.${Math.random().toString(36).slice(2)}`
  mkdirSync(dirname(lock), { recursive: true })
  noteProcess(own, process.pid)
  try {
    if (!take(own, lock)) {
      onWait?.()
      await waitFor(`another command to finish (${lock})`, patienceMs, async () => take(own, lock), gapMs)
    }
    try {
      return await work()
    } finally {
      forgetProcess(lock)
    }
  } finally {
    forgetProcess(own)
  }
}

/** True when the lock is ours now. A link is made or refused in one step, with its content in it. */
function take(own: string, lock: string): boolean {
  try {
    linkSync(own, lock)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  if (notedProcess(lock) === undefined) setAside(lock, `${own}.stale`)
  return false
}

/** Of several that find a dead one's lock, one moves it away. What was moved may be a new one's by then: it goes back. */
function setAside(lock: string, aside: string): void {
  try {
    renameSync(lock, aside)
    if (notedProcess(aside) !== undefined) linkSync(aside, lock)
  } catch {
    // Somebody else was quicker.
  }
  rmSync(aside, { force: true })
}
