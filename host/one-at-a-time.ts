import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isLive, processStartTime } from './live-process.ts'
import { type Progress, withProgress } from './progress.ts'
import { DeadlineError, isMetWithin, scaledMs, waitFor } from './wait.ts'

const patienceMs = 600_000

/** Another process has the lock. */
export interface Holder {
  pid: number
  /** What it does, as a verb phrase: `starts the cluster "k8s-guide"`. */
  doing: string
}

/**
 * The description shown to processes that wait for this one, and the progress on which this one
 * reports its own waiting.
 */
export interface Wait {
  doing: string
  progress: Progress
}

/**
 * Does work under a lock that is exclusive on this machine. Waits until all earlier processes have
 * finished or ended, and reports this on `progress`.
 * @throws DeadlineError when the others take longer than ten minutes
 */
export async function oneAtATime<T>(
  lock: string,
  work: () => Promise<T>,
  { doing, progress }: Wait,
): Promise<T> {
  const own = takeTicket(lock, doing)
  try {
    await waitForNumbers(own)
    await waitForOthers(own, progress)
    return await work()
  } finally {
    rmSync(own.file, { force: true })
  }
}

/**
 * Does work under a lock that is exclusive on this machine, and throws instead of waiting: for work
 * that may take hours.
 * @throws the error that `refusal` returns for the process that has the lock
 */
export async function onlyOne<T>(
  lock: string,
  work: () => Promise<T>,
  { doing, refusal }: { doing: string; refusal: (holder: Holder) => Error },
): Promise<T> {
  const own = takeTicket(lock, doing)
  try {
    await waitForNumbers(own)
    const [first] = others(own)
    if (first) throw refusal(holderOf(first))
    return await work()
  } finally {
    rmSync(own.file, { force: true })
  }
}

/** The process that has a lock; undefined if none has. */
export function lockHolder(lock: string): Holder | undefined {
  if (!existsSync(dirname(lock))) return undefined
  const [first] = ticketsFor(lock).filter(hasNumber).sort(byNumber)
  return first && holderOf(first)
}

/**
 * A process that takes its number may turn out to be later than this one. It takes milliseconds, so
 * that it is no reason to tell the user that the command waits.
 */
const waitForNumbers = (own: Ticket) =>
  waitFor('other commands to take their number', patienceMs, async () =>
    others(own).every(hasNumber),
  )

async function waitForOthers(own: Ticket, progress: Progress): Promise<void> {
  const [first] = others(own)
  if (first === undefined) return
  const { pid, doing } = holderOf(first)
  await withProgress(progress, `Waiting for process ${pid}, which ${doing}`, async () => {
    if (await isMetWithin(patienceMs, async () => others(own).length === 0)) return
    const minutes = Math.round(scaledMs(patienceMs) / 60_000)
    throw new DeadlineError(
      `Process ${pid}, which ${doing}, has not finished within ${minutes} minutes: wait for it, or end it with \`kill ${pid}\`, and run the command again.`,
    )
  })
}

/**
 * A file beside the lock's path for each process that works or waits (Lamport's bakery algorithm,
 * 1974): the lowest number works. Only its own process writes a file and its name is never reused,
 * so any process can remove the file of a dead one.
 */
interface Ticket {
  lock: string
  file: string
  id: string
  pid: number
  /** 0 while the process determines the highest number. */
  number: number
}

const hasNumber = ({ number }: Ticket) => number > 0
const byNumber = (one: Ticket, other: Ticket) =>
  (one.number || Infinity) - (other.number || Infinity)

function takeTicket(lock: string, doing: string): Ticket {
  mkdirSync(dirname(lock), { recursive: true })
  const id = `${process.pid}-${processStartTime(process.pid)}-${Math.random().toString(36).slice(2)}`
  const choosing = `${lock}.${id}.choosing`
  writeFileSync(choosing, '', { mode: 0o600 })
  const number = 1 + Math.max(0, ...ticketsFor(lock).map(({ number: taken }) => taken))
  const file = `${lock}.${id}.${number}`
  writeFileSync(file, doing, { mode: 0o600 })
  rmSync(choosing)
  return { lock, file, id, pid: process.pid, number }
}

/** Tickets of running processes before this one, the working one first. */
function others({ lock, id, number }: Ticket): Ticket[] {
  return ticketsFor(lock)
    .filter(
      (other) =>
        other.id !== id && (other.number < number || (other.number === number && other.id < id)),
    )
    .sort(byNumber)
}

function ticketsFor(lock: string): Ticket[] {
  const folder = dirname(lock)
  const prefix = `${basename(lock)}.`
  return readdirSync(folder).flatMap((name) => {
    if (!name.startsWith(prefix)) return []
    const [, id = '', pid, startTime = '', number = 0] =
      /^((\d+)-(\w+)-\w+)\.(?:choosing|(\d+))$/.exec(name.slice(prefix.length)) ?? []
    if (pid === undefined) return []
    const file = join(folder, name)
    if (isLive({ pid: Number(pid), startTime }))
      return [{ lock, file, id, pid: Number(pid), number: Number(number) }]
    rmSync(file, { force: true })
    return []
  })
}

function holderOf({ file, pid }: Ticket): Holder {
  try {
    return { pid, doing: readFileSync(file, 'utf8') || 'does the same' }
  } catch {
    // It has finished meanwhile.
    return { pid, doing: 'does the same' }
  }
}
