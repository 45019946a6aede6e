import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { $ } from './command.ts'
import { isFullDisk, noSpace, SystemTrouble } from './system-trouble.ts'
import { timeoutScale } from './wait.ts'

/** How a command ended and what it printed. */
export interface Supervised {
  exitCode: number | null
  stdout: string
  stderr: string
  /** It was ended, because it had come no further for {@link stallSeconds}. */
  stalled: boolean
}

export interface SuperviseOptions {
  cwd: string
  /** A number of bytes that grows while the command comes on. */
  reached(): number
  /** Called with that number each second. */
  onProgress?(reached: number): void
  /** Ends the command. */
  signal?: AbortSignal
}

/** So long a download may stand still: longer than apt waits for a server and tries another one. */
export const stallSeconds = () => 60 * timeoutScale()
/** Less than that in all that time is standing still, too: the rest would take days. */
const STALL_BYTES = 50_000
const lookMs = 1000

/**
 * Looks each second how many bytes a download has reached, and calls `onStall` when they stand still.
 * @returns what ends the looking
 */
export function watchDownload(
  reached: () => number,
  onStall: () => void,
  onProgress?: (bytes: number) => void,
): () => void {
  let last = { bytes: reached(), at: Date.now() }
  const look = setInterval(() => {
    const bytes = reached()
    onProgress?.(bytes)
    // Less than before is another stage: a partial file was put in its place.
    if (bytes < last.bytes || bytes >= last.bytes + STALL_BYTES) last = { bytes, at: Date.now() }
    else if (Date.now() - last.at > stallSeconds() * 1000) onStall()
  }, lookMs)
  return () => clearInterval(look)
}

/** The shell ends its process group when descriptor 3 is closed, which happens however this process dies. */
const SUPERVISOR = `"$@" 3<&- & command=$!
{ read -r _ <&3; kill -KILL 0; } 2>/dev/null &
wait "$command"`

/**
 * Runs a program that downloads in a process group of its own, which ends as a whole: when the program has ended, when it stands
 * still, and when this process dies.
 * @throws what spawn throws where the program can't be started
 */
export async function runSupervised(command: readonly string[], options: SuperviseOptions): Promise<Supervised> {
  const child = spawn('sh', ['-c', SUPERVISOR, 'sh', ...command], {
    cwd: options.cwd,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
  })
  // Without a process there are no pipes either: this rejects.
  if (child.pid === undefined) await once(child, 'spawn')
  const endAll = () => {
    try {
      process.kill(-Number(child.pid), 'SIGKILL')
    } catch {
      // All have ended.
    }
  }
  const lifeline = child.stdio[3] as Writable
  lifeline.on('error', () => {})
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      printed[name] += text
    })
  let stalled = false
  const onStall = () => {
    stalled = true
    endAll()
  }
  const stopWatching = watchDownload(options.reached, onStall, options.onProgress)
  options.signal?.addEventListener('abort', endAll)
  if (options.signal?.aborted) endAll()
  try {
    const closed = once(child, 'close')
    const [exitCode]: (number | null)[] = await once(child, 'exit')
    endAll()
    await closed
    return { ...printed, exitCode: exitCode ?? null, stalled }
  } finally {
    stopWatching()
    options.signal?.removeEventListener('abort', endAll)
    lifeline.destroy()
  }
}

/**
 * Runs a program of this system that takes a moment and has to succeed.
 * @throws Error in one sentence with the program's last line; SystemTrouble where the disk is full
 */
export async function runTool(command: readonly string[], cwd: string): Promise<void> {
  const { exitCode, signal, stderr, message } = await $({ cwd, quiet: true, nothrow: true })`${command}`
  if (exitCode === 0) return
  if (isFullDisk(stderr)) throw new SystemTrouble(noSpace(cwd))
  const reason = stderr.trim().split('\n').at(-1) || signal || message.split('\n')[0]
  throw new Error(`"${command.join(' ')}" failed: ${reason}`)
}

/** Bytes of all files in a folder; what comes and goes meanwhile may be missing. */
export function bytesBelow(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((name) => statSync(join(folder, name), { throwIfNoEntry: false }))
      .reduce((sum, stats) => sum + (stats?.isFile() ? stats.size : 0), 0)
  } catch {
    return 0
  }
}
