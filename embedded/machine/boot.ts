import { execFileSync, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { projectRoot } from '../../host/layout.ts'
import { hostKernel } from './host-kernel.ts'
import type { BootOptions, Kernel } from './kernel.ts'
import { ENDED } from './kernel-end.ts'
import { isWholeRoot } from './kernel-package.ts'
import { umlKernel } from './uml-kernel.ts'

/**
 * A kernel consists of several processes in a separate session, and the helpers of User-Mode Linux survive if the main process is
 * killed. The shells kill the process group when the kernel ends, and when descriptor 5 is closed, which happens whenever this process
 * ends.
 */
const supervisor = `"$@" 5<&- & kernel=$!
{ read -r _ <&5; kill -KILL "-$kernel"; kill -KILL "$kernel"; } 2>/dev/null &
wait "$kernel"
echo "${ENDED}$?"
kill -KILL "-$kernel" 2>/dev/null
[ -z "$TMPDIR" ] || rm -rf "$TMPDIR"
kill -KILL 0`

/** Writes the guest's agent into `folder` as one plain JavaScript file, and returns its path. */
function bundleAgent(folder: string): string {
  const file = join(folder, 'agent.mjs')
  const words = ['embedded/machine/agent.ts', '--bundle', '--platform=node', '--format=esm', `--outfile=${file}`]
  execFileSync(join(projectRoot, 'node_modules/.bin/esbuild'), [...words, '--log-level=error'], { cwd: projectRoot })
  return file
}

/**
 * Starts a guest. The line to its agent is a pair of pipes of this process, and the guest ends with it.
 * @throws Error with one sentence if this machine can't run that kernel
 */
export async function bootKernel(options: BootOptions): Promise<Kernel> {
  const [readable] = options.readable ?? []
  if (readable !== undefined && isWholeRoot(options.packages))
    throw new Error(`"${readable}" can't be run from the offline archive, whose nodes see its own files only.`)
  mkdirSync(options.directory, { recursive: true })
  const start = (options.kernel === 'host' ? hostKernel : umlKernel)(options, bundleAgent(options.directory))
  const consoleFile = options.consoleFile ?? join(options.directory, 'console.log')
  // A file instead of a pipe, so that a kernel's last output is complete when its end is reported.
  const output = openSync(consoleFile, 'w', 0o600)
  const child = spawn('sh', ['-c', supervisor, 'sh', ...start.command], {
    cwd: start.cwd,
    // Debian's ordinary users do not have pivot_root on their PATH.
    env: { PATH: `${process.env.PATH}:/usr/sbin:/sbin`, HOME: options.directory, ...start.env },
    stdio: ['ignore', output, output, 'pipe', 'pipe', 'pipe'],
    // A separate process group: Ctrl-C in the terminal signals only this process, which then ends the group.
    detached: true,
  })
  // Registered first: a caller that waits for the end may end this process.
  for (const event of ['exit', 'error']) child.once(event, start.ended)
  closeSync(output)
  const [, , , toGuest, fromGuest, lifeline] = child.stdio as readonly (Readable | Writable | null)[]
  return {
    ...start,
    process: child,
    toGuest: toGuest as Writable,
    fromGuest: fromGuest as Readable,
    consoleFile,
    end: () => lifeline?.destroy(),
  }
}
