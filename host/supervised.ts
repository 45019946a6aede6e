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
  /** It was ended because it made no progress for {@link stallSeconds}. */
  stalled: boolean
}

export interface SuperviseOptions {
  cwd: string
  /** A number of bytes that grows while the command makes progress. */
  reached(): number
  onProgress?(reached: number): void
}

/**
 * How long a download may make no progress: longer than apt waits for a server before it tries
 * another one.
 */
export const stallSeconds = () => 60 * timeoutScale()
/** Fewer bytes than this in that time also count as a stall: the rest would take days. */
const STALL_BYTES = 50_000
const pollMs = 1000

/**
 * Reads each second how many bytes a download has received, and calls `onStall` when there is no
 * progress.
 * @returns the function that stops the watch
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
    // Fewer bytes than before mean the next stage: a partial file was moved into place.
    if (bytes < last.bytes || bytes >= last.bytes + STALL_BYTES) last = { bytes, at: Date.now() }
    else if (Date.now() - last.at > stallSeconds() * 1000) onStall()
  }, pollMs)
  return () => clearInterval(look)
}

/**
 * The shell ends its process group when descriptor 3 is closed, which happens in any case when this
 * process ends.
 */
const SUPERVISOR = `"$@" 3<&- & command=$!
{ read -r _ <&3; kill -KILL 0; } 2>/dev/null &
wait "$command"`

/**
 * Runs a program that downloads, in its own process group, which is ended as a whole when the
 * program ends, when it makes no progress, and when this process ends.
 * @throws what spawn throws if the program can't be started
 */
export async function runSupervised(
  command: readonly string[],
  options: SuperviseOptions,
): Promise<Supervised> {
  const child = spawn('sh', ['-c', SUPERVISOR, 'sh', ...command], {
    cwd: options.cwd,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
  })
  // Without a process there are no pipes: this rejects.
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
  try {
    const closed = once(child, 'close')
    const [exitCode]: (number | null)[] = await once(child, 'exit')
    endAll()
    await closed
    return { ...printed, exitCode: exitCode ?? null, stalled }
  } finally {
    stopWatching()
    lifeline.destroy()
  }
}

/**
 * Runs a short program of this system that must succeed.
 * @throws Error in one sentence with the program's last line; SystemTrouble if the disk is full
 */
export async function runTool(command: readonly string[], cwd: string): Promise<void> {
  const { exitCode, signal, stderr, message } = await $({
    cwd,
    quiet: true,
    nothrow: true,
  })`${command}`
  if (exitCode === 0) return
  if (isFullDisk(stderr)) throw new SystemTrouble(noSpace(cwd))
  const reason = stderr.trim().split('\n').at(-1) || signal || message.split('\n')[0]
  throw new Error(`"${command.join(' ')}" failed: ${reason}`)
}

/** Bytes of all files in a folder; files that appear or disappear meanwhile may be missing. */
export function bytesBelow(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((name) => statSync(join(folder, name), { throwIfNoEntry: false }))
      .reduce((sum, stats) => sum + (stats?.isFile() ? stats.size : 0), 0)
  } catch {
    return 0
  }
}
