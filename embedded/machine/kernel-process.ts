import { execFileSync, spawn } from 'node:child_process'
import { closeSync, existsSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { projectRoot } from '../../host/layout.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import { programText } from '../../host/program-text.ts'
import { recordConsole } from './console-file.ts'
import { hostKernel } from './host-kernel.ts'
import type { BootOptions, Kernel } from './kernel.ts'
import { isWholeRoot } from './kernel-package.ts'
import { umlKernel } from './uml-kernel.ts'

/**
 * The start of the supervisor's last line on the console, followed by the kernel's exit status in
 * sh(1).
 */
const ENDED = 'The process of the kernel ended with status '

/**
 * A kernel consists of several processes in a separate session, and the helpers of User-Mode Linux
 * survive if the main process is killed. The shells kill the process group when the kernel ends,
 * and when descriptor 5 is closed, which happens whenever this process ends. Files of the guest
 * don't depend on the umask of the user who starts it.
 */
const supervisor = programText('embedded/machine/supervisor.sh')

/** Writes the guest's agent into `folder` as one plain JavaScript file, and returns its path. */
function bundleAgent(folder: string): string {
  const file = join(folder, 'agent.mjs')
  const args = [
    'embedded/machine/agent.ts',
    '--bundle',
    '--platform=node',
    '--format=esm',
    `--outfile=${file}`,
  ]
  execFileSync(join(projectRoot, 'node_modules/.bin/esbuild'), [...args, '--log-level=error'], {
    cwd: projectRoot,
  })
  return file
}

/**
 * Starts a guest. The line to its agent is a pair of pipes of this process, and the guest ends with
 * it.
 * @throws Error with one sentence if this machine can't run that kernel
 */
export async function bootKernel(options: BootOptions): Promise<Kernel> {
  const [readable] = options.readable ?? []
  if (readable !== undefined && isWholeRoot(options.packages))
    throw new Error(
      `"${readable}" can't be run from the offline archive, whose nodes see its own files only.`,
    )
  mkdirSync(options.directory, { recursive: true })
  const start = (options.kernel === 'host' ? hostKernel : umlKernel)(
    options,
    bundleAgent(options.directory),
  )
  const consoleFile = options.consoleFile ?? join(options.directory, 'console.log')
  const child = spawn('sh', ['-c', supervisor, 'sh', ...start.command], {
    cwd: start.cwd,
    // Debian's ordinary users do not have pivot_root on their PATH.
    env: { PATH: `${process.env.PATH}:/usr/sbin:/sbin`, HOME: options.directory, ...start.env },
    stdio: ['ignore', 'pipe', 'ignore', 'pipe', 'pipe', 'pipe'],
    // A separate process group: Ctrl-C in the terminal signals only this process, which then ends
    // the group.
    detached: true,
  })
  // Registered first: a caller that waits for the end may end this process.
  for (const event of ['exit', 'error']) child.once(event, start.ended)
  const [, console, , toGuest, fromGuest, lifeline] = child.stdio as readonly (
    | Readable
    | Writable
    | null
  )[]
  return {
    ...start,
    process: child,
    toGuest: toGuest as Writable,
    fromGuest: fromGuest as Readable,
    consoleFile,
    recorded: recordConsole(console as Readable, consoleFile),
    end: () => {
      lifeline?.destroy()
      try {
        // Shells that were stopped (SIGSTOP) would never notice it.
        process.kill(-Number(child.pid), 'SIGCONT')
      } catch {
        // All have ended.
      }
    },
  }
}

/**
 * A panic message has about 3 kB. The console's length is limited, because root of the guest can
 * write to it.
 */
const TAIL_BYTES = 64 * 1024

/**
 * Messages with which Linux, or User-Mode Linux without space for its memory file, reports a fatal
 * error. The first one is the cause.
 */
const PANIC = /Kernel panic - not syncing|ran out of space|No space left on device/

/** If this kills the guest agent, the guest's first process shuts down the kernel. */
const OUT_OF_MEMORY = /Out of memory: Killed process/

/** sh(1): a process that a signal ended has the signal's number and this. */
const BY_SIGNAL = 128

/**
 * Why a kernel ended, as a clause after "its kernel ended": the line of its console with the
 * reason, else the end of both.
 */
export function describeKernelEnd(console: string): string {
  const lines = console
    .split('\n')
    .map((line) => line.replace(/^(<\d>)?(\[ *[\d.]+\] )?/, '').trim())
    .filter(Boolean)
  const at = lines.findLastIndex((line) => line.startsWith(ENDED))
  const status = at < 0 ? undefined : Number(lines[at]?.slice(ENDED.length))
  // The shell prints the signal's name in the line before: "Killed", "Aborted".
  const printed = lines.slice(0, at < 0 ? undefined : at)
  const panic = printed.find((line) => PANIC.test(line))
  if (panic !== undefined) return `with ${quotedLine(panic)}`
  if (status === 0) {
    const starved = printed.findLast((line) => OUT_OF_MEMORY.test(line))
    return starved
      ? `with ${quotedLine(starved)}`
      : 'because it was shut down from within, or its guest agent ended'
  }
  const signal = Object.entries(constants.signals).find(
    ([, number]) => status === number + BY_SIGNAL,
  )?.[0]
  if (signal === 'SIGKILL' || status === undefined)
    return 'with SIGKILL: another process on this machine killed it, or Linux because memory ran out'
  const last = printed
    .filter((line) => !/^(Aborted|Segmentation fault|Bus error)/.test(line))
    .at(-1)
  const how = signal ? `with ${signal}` : `with exit code ${status}`
  return last === undefined
    ? `${how}; its console is empty`
    : `${how}; its console ends with ${quotedLine(last)}`
}

const quotedLine = (line: string) => `"${shortened(plainText(line))}"`

/** The end of the file with a kernel's console output; empty if the file was removed. */
export function consoleTail(file: string): string {
  if (!existsSync(file)) return ''
  const handle = openSync(file, 'r')
  try {
    const { size } = fstatSync(handle)
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES))
    return bytes.toString('utf8', 0, readSync(handle, bytes, 0, bytes.length, size - bytes.length))
  } finally {
    closeSync(handle)
  }
}
