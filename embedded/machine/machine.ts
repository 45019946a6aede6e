import { constants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { type ExecOptions, type ExecResult, shellWord } from '../../host/shell-word.ts'

/** The privileges that root keeps. */
export interface Privileges {
  /** Bits of the capabilities (capabilities(7)), hexadecimal; absent: all. */
  capabilities?: string
  /** Programs with setuid or file capabilities give no additional privileges. */
  noNewPrivileges?: boolean
}

/** The namespaces of the guest in which a command runs. */
export interface Placement {
  /** A network namespace by name (a node's or a Pod's); absent: the guest's own. */
  netns?: string
  /**
   * A process whose namespaces (mount, uts, ipc, pid, network), root and working directory to
   * share, as nsenter does.
   */
  pid?: number
  /**
   * The same for the only child of this process, which waits for the first process of a container
   * (`confine --new`).
   */
  childOf?: number
  /** With `pid`: the privileges of a command there; default: all. */
  privileges?: Privileges
  env?: Record<string, string>
}

/** Where a script can run. */
export type ScriptPlace = Pick<Placement, 'pid' | 'netns'>

/** How a process ended. */
export interface ProcessEnd {
  /** As a shell reports it: 128 and the number of the signal that ended it. */
  exitCode: number
  signal?: number | undefined
}

/** The end of a process of which Node.js reports this. */
export function processEnd(code: number | null, signalName: NodeJS.Signals | null): ProcessEnd {
  const signal = signalName ? constants.signals[signalName] : undefined
  return { exitCode: code ?? 128 + (signal ?? 0), signal }
}

export interface GuestProcess {
  /** Process id inside the guest. */
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles when the process ended and both outputs are drained. */
  readonly exited: Promise<ProcessEnd>
  kill(signal: string): void
  /** Only for processes started with `tty`. */
  resize(columns: number, rows: number): void
}

export interface SpawnOptions {
  /** The process gets a pseudo terminal. */
  tty?: boolean
  /** Size of the terminal; default 80 x 24. */
  size?: { columns: number; rows: number }
  /** Standard input is /dev/null. */
  noInput?: boolean
  /** The command is `confine --new`: signals go to the first process of the container. */
  container?: boolean
}

/**
 * A file to write, which replaces what is at its path; a path that ends in / is a folder to create.
 */
export interface GuestFile {
  path: string
  content: string | Uint8Array
  mode?: number
  /** What is at the path stays. */
  ifMissing?: true
}

/**
 * The root file system of a node or container: folders to create, and mounts (lines of an fstab).
 */
export interface Layer {
  folders: string[]
  mounts: string[]
}

/** A word of a line of Layer's mounts (fstab(5)), also for use inside quotes of sh. */
export const fstabWord = (path: string) =>
  path.replace(
    /[\s\\'#]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  )

/** The one real Linux kernel of an embedded cluster, reached through its agent. */
export interface Machine {
  /**
   * Whether root can load modules, because the kernel booted with the machine. The host's kernel
   * loads what a netlink request needs.
   */
  readonly ownKernel: boolean
  /**
   * Runs a command to its end. Rejects if it can't be started, the machine has ended, or
   * `timeoutMs` have passed (it is then killed).
   */
  run(command: readonly string[], placement?: Placement, options?: ExecOptions): Promise<ExecResult>
  /**
   * Runs a script that reads no input and leaves no process, in a waiting shell: many times faster
   * than `run`. Rejects as `run` does.
   */
  script(text: string, place?: ScriptPlace, options?: { timeoutMs?: number }): Promise<ExecResult>
  /**
   * Starts a process that keeps running; with `tty` it gets a pseudo terminal, and stdout contains
   * both outputs.
   */
  spawn(
    command: readonly string[],
    placement?: Placement,
    options?: SpawnOptions,
  ): Promise<GuestProcess>
  /**
   * Writes files in the guest, and creates their parent folders. Never touches the host's own
   * files.
   */
  write(files: readonly GuestFile[]): Promise<void>
  /**
   * An overlay at `root` over the guest's files, with its writable layer in `upper`. The three
   * folders exist.
   */
  layer(root: string, upper: string, work: string): Layer
  /**
   * Listens, once, inside a network namespace of the guest and forwards connections to a TCP port
   * of the host's loopback interface.
   */
  forward(netns: string, address: string, port: number, hostPort: number): Promise<void>
  /** Settles when the kernel has ended, with the reason as a clause after "the kernel". */
  readonly ended: Promise<string>
  stop(): Promise<void>
}

/** The program of confine.c in the guest; in a tree of packages, without the first slash. */
export const GUEST_CONFINE = '/usr/lib/uml/confine'

/** The program of http-get.c there, which cluster/http-get.sh looks for. */
export const GUEST_HTTP_GET = '/usr/lib/uml/http-get'

/** The options of confine.c for these privileges. */
export const privilegeOptions = ({ capabilities, noNewPrivileges }: Privileges): string[] => [
  ...(capabilities === undefined ? [] : ['--capabilities', capabilities]),
  ...(noNewPrivileges ? ['--no-new-privs'] : []),
]

/** A process that the host requests from the agent. */
export interface SpawnRequest extends Placement, SpawnOptions {
  command: readonly string[]
}

/** A script for a waiting shell at this place. */
export interface ScriptRequest extends ScriptPlace {
  script: string
}

/**
 * The namespaces a process of the guest is moved into before the command starts. nsenter and
 * setpriv are not used: setpriv would be a file of the container, which its root can replace, and
 * run with all privileges.
 */
export function enterNamespaces({ pid, netns, privileges }: Placement, tty = false): string[] {
  if (pid === undefined)
    return netns === undefined ? [] : [GUEST_CONFINE, '--join', `/run/netns/${netns}`, '--']
  const options = [...(tty ? ['--terminal'] : []), ...privilegeOptions(privileges ?? {})]
  return [GUEST_CONFINE, '--enter', String(pid), ...options, '--']
}

/**
 * Program and arguments for a request. With a terminal, `script` owns it and writes its name to
 * `terminalFile`, to be resized.
 */
export function spawnArguments(request: SpawnRequest, terminalFile: string): string[] {
  const argv = [...enterNamespaces(request, request.tty), ...request.command]
  if (!request.tty) return argv
  const { columns, rows } = request.size ?? { columns: 80, rows: 24 }
  const line = `stty cols ${columns} rows ${rows}; tty >${shellWord(terminalFile)}; exec ${argv.map(shellWord).join(' ')}`
  return ['script', '--quiet', '--flush', '--return', '--command', line, '/dev/null']
}
