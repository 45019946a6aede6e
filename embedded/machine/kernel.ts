import type { ChildProcess } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Confinement } from './confinement.ts'

/** The kernels that a cluster can run on: User-Mode Linux, or this machine's own in namespaces of its own. */
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
  /** Where its console is written; absent: `console.log` in its folder, which root of the guest can change. */
  consoleFile?: string
  /** Further files of the host that programs of the guest read. */
  readable?: readonly string[]
  /** What is to be used of what this machine can do; absent: all. */
  confinement?: Confinement
}

/** How a guest's first process comes to life, and what differs between guests of one kernel and of another. */
export interface KernelStart {
  /** Absent: none; the kernel is not confined because it is the host's own. */
  confinement?: Confinement
  command: string[]
  cwd: string
  /** TMPDIR is removed when it has ended. */
  env?: NodeJS.ProcessEnv
  /** What the line to the agent takes before it is acknowledged, and whether long frames go packed. */
  line: { windowBytes: number; packed: boolean }
  /** These two as Machine's. */
  ownKernel: boolean
  layer(root: string, upper: string, work: string): { folders: string[]; mounts: string[] }
  /** To be called when it is up: removes what it needs only to start. */
  booted(): void
  /** To be called when its process has ended. */
  ended(): void
}

export interface Kernel extends Omit<KernelStart, 'command' | 'cwd' | 'env' | 'ended'> {
  process: ChildProcess
  toGuest: Writable
  fromGuest: Readable
  /** Holds what its console printed, and at its end the supervisor's line (kernel-end.ts). */
  consoleFile: string
  /** Ends the kernel with all its helpers at once. Nothing is lost: all that a guest holds is in its memory. */
  end(): void
}
