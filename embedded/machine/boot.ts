import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { projectRoot } from '../../host/layout.ts'
import { type Confinement, confinedCommand, findConfinement, programFiles } from './confinement.ts'
import { memoryFolder, requireLimits } from './host-limits.ts'
import { initScript } from './init.ts'
import { ENDED } from './kernel-end.ts'
import { kernelProgram } from './kernel-package.ts'
import { allowedCpus, ownCpu, runningKernels } from './own-cpu.ts'
import { plainPath } from './plain-path.ts'

export interface BootOptions {
  /** Unpacked packages (packages.ts). */
  packages: string
  /** The cluster's own folder: agent, init script and UML's management files go there. */
  directory: string
  /** Name of this kernel among the user's UML kernels. */
  name: string
  memoryMegabytes?: number
  /** Where its console is written; absent: `console.log` in its folder, which root of the guest can change. */
  consoleFile?: string
  /** Further files of the host that programs of the guest read. */
  readable?: readonly string[]
  /** What is to be used of what this machine can do; absent: all. */
  confinement?: Confinement
}

export interface Kernel {
  process: ChildProcess
  /** What protects this machine's files from it. */
  confinement: Confinement
  toGuest: Writable
  fromGuest: Readable
  /** To be called when it is up: takes the folder away in which it made its memory. */
  booted(): void
  /** Holds what its console printed, and at its end the supervisor's line (kernel-end.ts). */
  consoleFile: string
  /** Ends the kernel with all its helpers at once. Nothing is lost: all that a guest holds is in its memory. */
  end(): void
}

/**
 * UML is several processes in a session of its own, and its helpers outlive a main process that is killed. The shells end all
 * of that group when the kernel ends, and when descriptor 5 is closed, which happens however this process dies.
 */
const supervisor = `"$@" 5<&- & kernel=$!
{ read -r _ <&5; kill -KILL "-$kernel"; kill -KILL "$kernel"; } 2>/dev/null &
wait "$kernel"
echo "${ENDED}$?"
kill -KILL "-$kernel" 2>/dev/null
rm -rf "$TMPDIR"
kill -KILL 0`

const INIT = 'init.sh'

/** Writes the guest's agent into `folder` as one plain JavaScript file, and returns its path. */
function bundleAgent(folder: string): string {
  const file = join(folder, 'agent.mjs')
  const words = ['embedded/machine/agent.ts', '--bundle', '--platform=node', '--format=esm', `--outfile=${file}`]
  execFileSync(join(projectRoot, 'node_modules/.bin/esbuild'), [...words, '--log-level=error'], { cwd: projectRoot })
  return file
}

/**
 * What a kernel does as it boots that nobody has use for here: benchmarks of checksums for disks, which took more than half of that
 * time, and the buffers of a file system's journal and of compressed swap. Whenever the kernel maps memory for a module, User-Mode
 * Linux maps all of its virtual memory anew, a page at a time (flush_tlb_kernel_vm, 6.1), and those buffers were four fifths of it.
 */
const NEEDLESS = ['raid6_select_algo', 'calibrate_xor_blocks', 'init_jfs_fs', 'init_zswap']

/**
 * Starts User-Mode Linux with the host's file system as its read-only root (Documentation/virt/uml/user_mode_linux_howto_v2).
 * The serial line is two pipes of this process, and the kernel never outlives it.
 */
export async function bootKernel(options: BootOptions): Promise<Kernel> {
  const megabytes = options.memoryMegabytes ?? 1024
  requireLimits(megabytes)
  const room = memoryFolder(megabytes)
  mkdirSync(options.directory, { recursive: true })
  const agent = bundleAgent(options.directory)
  const directory = plainPath(options.directory)
  // libmount takes a double quote in a mount's options for the beginning of a quoted text.
  const packages = plainPath(realpathSync(options.packages))
  writeFileSync(join(options.directory, INIT), initScript({ packages: packages.path, node: process.execPath, agent }), {
    mode: 0o755,
  })
  const program = kernelProgram(options.packages)
  const confinement = options.confinement ?? findConfinement(options.packages)
  // Its own, as the kernel may write there.
  const memory = mkdtempSync(join(room, 'kube-service-labs-'))
  const allowance = {
    read: [...programFiles(), realpathSync(options.packages), ...(options.readable ?? [])],
    write: [realpathSync(options.directory), memory],
  }
  const cpu = ownCpu(allowedCpus(), runningKernels())
  const kernel = [
    ...(cpu === undefined ? [] : ['taskset', '-c', String(cpu)]),
    ...confinedCommand(options.packages, confinement, allowance, program.command),
    ...[`mem=${megabytes}M`, 'rootfstype=hostfs', 'rootflags=/', 'ro', `init=${join(directory.path, INIT)}`],
    // Not con0=null: that opens /dev/null for writing, which Landlock refuses, and without its input there is no console at all.
    ...['con=null', 'con0=fd:0,fd:1', 'ssl=null', 'ssl0=fd:3,fd:4', 'quiet'],
    ...[`initcall_blacklist=${NEEDLESS.join()}`, 'pty.legacy_count=0'],
    ...[`umid=${options.name}`, `uml_dir=${directory.path}/`],
  ]
  const consoleFile = options.consoleFile ?? join(options.directory, 'console.log')
  // A file and no pipe: what a kernel prints as it dies is there before anyone is notified of its end.
  const output = openSync(consoleFile, 'w', 0o600)
  const child = spawn('sh', ['-c', supervisor, 'sh', ...kernel], {
    cwd: program.directory,
    env: { PATH: process.env.PATH, HOME: options.directory, TMPDIR: memory },
    stdio: ['ignore', output, output, 'pipe', 'pipe', 'pipe'],
    // A process group of its own: Ctrl-C in the terminal is for this process, which then ends that group.
    detached: true,
  })
  // Before anybody else hears of it: whoever waits for the end may end this process.
  for (const ended of ['exit', 'error']) for (const { end } of [directory, packages]) child.once(ended, end)
  closeSync(output)
  const [, , , toGuest, fromGuest, lifeline] = child.stdio as readonly (Readable | Writable | null)[]
  return {
    process: child,
    confinement,
    toGuest: toGuest as Writable,
    fromGuest: fromGuest as Readable,
    // The file is unlinked as soon as it is open, and nothing else is to be put there.
    booted: () => rmSync(memory, { recursive: true, force: true }),
    consoleFile,
    end: () => lifeline?.destroy(),
  }
}
