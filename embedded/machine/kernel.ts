import type { ChildProcess } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Confinement } from './confinement.ts'
import type { Layer } from './machine.ts'

/**
 * The kernels that a cluster can run on: User-Mode Linux, or this machine's own kernel in separate
 * namespaces.
 */
export const KERNELS = ['uml', 'host'] as const
export type KernelName = (typeof KERNELS)[number]

export interface BootOptions {
  /** Absent: User-Mode Linux. */
  kernel?: KernelName | undefined
  /** Unpacked packages (packages.ts). */
  packages: string
  /** The cluster's own folder: agent, init script and UML's management files go there. */
  directory: string
  /** Name of this kernel among the user's UML kernels. */
  name: string
  /** Of User-Mode Linux; the host's kernel shares the memory of the host. */
  memoryMegabytes?: number
  /** The file for its console output; default: `console.log` in its folder. */
  consoleFile?: string
  /** Further files of the host that programs of the guest read. */
  readable?: readonly string[]
  /** The confinement mechanisms to use; default: all that are available. */
  confinement?: Confinement
}

/** How a guest's first process is started, and the differences between the kernels. */
export interface KernelStart {
  /** Absent: none; the kernel is not confined because it is the host's own. */
  confinement?: Confinement
  command: string[]
  cwd: string
  /** TMPDIR is removed when it has ended. */
  env?: NodeJS.ProcessEnv
  /** The number of bytes that the line to the agent accepts before an acknowledgement. */
  windowBytes: number
  /** These two as Machine's. */
  ownKernel: boolean
  layer(root: string, upper: string, work: string): Layer
  /** Called when it has started: removes files that it needs only to start. */
  booted(): void
  /** To be called when its process has ended. */
  ended(): void
}

export interface Kernel extends Omit<KernelStart, 'command' | 'cwd' | 'env' | 'ended'> {
  process: ChildProcess
  toGuest: Writable
  fromGuest: Readable
  /** Contains its console output, and at its end the supervisor's line (kernel-process.ts). */
  consoleFile: string
  /** Resolves when all of its console output is in that file, after the end of its processes. */
  recorded: Promise<void>
  /**
   * Kills the kernel with all its helpers immediately. No data is lost, because a guest stores
   * everything in memory.
   */
  end(): void
}
