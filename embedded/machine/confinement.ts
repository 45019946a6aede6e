import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { GUEST_CONFINE } from './machine.ts'

/** The program of confine.c in a tree of packages. */
export const CONFINE = GUEST_CONFINE.slice(1)

/** The mechanisms that protect this machine's files from a kernel and root in it. */
export interface Confinement {
  /**
   * How files are protected; undefined if this machine supports neither, so that root of the guest
   * can access the user's files.
   */
  files: 'landlock' | 'mounts' | undefined
  /**
   * How signals to other programs are prevented: by Landlock since Linux 6.12, else by a process
   * namespace; undefined if by neither.
   */
  signals: 'landlock' | 'namespace' | undefined
  /** Modes, owners and times of files can't be changed, nor other programs be reached. */
  systemCalls: boolean
}

/** Detects the available mechanisms by using them. */
export function detectConfinement(tree: string): Confinement {
  const works = (...options: string[]) =>
    spawnSync(join(tree, CONFINE), options, { stdio: 'ignore' }).status === 0
  const files = works('--landlock') ? 'landlock' : works('--mounts') ? 'mounts' : undefined
  const scoped = files === 'landlock' && works('--scoped')
  const signals = scoped ? 'landlock' : works('--apart') ? 'namespace' : undefined
  return { files, signals, systemCalls: works('--filter') }
}

/**
 * Whether an ordinary user's kernel runs in a user namespace, in which only this user is mapped:
 * files of the host's root belong to the user nobody there.
 */
export const runsInUserNamespace = ({ files, signals }: Confinement): boolean =>
  process.getuid?.() !== 0 && (files === 'mounts' || signals === 'namespace')

/** The remaining access and how to prevent it; undefined if all mechanisms work. */
export function remainingAccess({
  files,
  signals,
  systemCalls,
}: Confinement): { open: string; fix: string } | undefined {
  if (files === undefined)
    return {
      open: 'root in a node or a privileged Pod can change every file that you can: this system grants neither Landlock nor user namespaces',
      fix: 'a kernel from 5.13 on with `landlock` in its `lsm=` list, or `sudo sysctl kernel.unprivileged_userns_clone=1`',
    }
  if (files === 'landlock' && !systemCalls)
    return {
      open: 'root in a node or a privileged Pod can change modes and times of files that are yours: this system grants no seccomp',
      fix: 'a kernel with CONFIG_SECCOMP_FILTER, or a container whose profile allows it',
    }
  if (signals === undefined)
    return {
      open: 'root in a node or a privileged Pod can end your other programs: Landlock forbids signals since Linux 6.12, and this system grants no user namespaces',
      fix: 'a kernel from 6.12 on, or `sudo sysctl kernel.unprivileged_userns_clone=1`',
    }
  if (files === 'mounts')
    return {
      open: 'root in a node or a privileged Pod can read every file that you can, and change none',
      fix: 'a kernel from 5.13 on with `landlock` in its `lsm=` list',
    }
  return undefined
}

/**
 * CAP_DAC_READ_SEARCH: root may read a checkout that belongs to a user. Landlock says what of it.
 */
const READ_ANY = '4'

/**
 * The first descriptor that a kernel doesn't get from this program: below are its console and the
 * line to its agent (bootKernel).
 */
const FIRST_INHERITED = '5'

/**
 * A command that keeps only this access to files: to read (if Landlock is available), and the
 * folders to write.
 */
export function confinedCommand(
  tree: string,
  { files, signals, systemCalls }: Confinement,
  { read, write }: { read: readonly string[]; write: readonly string[] },
  command: readonly string[],
): string[] {
  return [
    join(tree, CONFINE),
    '--close',
    FIRST_INHERITED,
    '--keyring',
    '--capabilities',
    READ_ANY,
    '--no-new-privs',
    ...(files === undefined ? [] : [`--${files}`]),
    ...(signals === 'namespace' ? ['--apart'] : []),
    ...(files === 'landlock' ? read.flatMap((path) => ['--read', path]) : []),
    ...write.flatMap((path) => ['--write', path]),
    ...(systemCalls ? ['--filter'] : []),
    '--',
    ...command,
  ]
}

/** The folders of programs and libraries on Debian and Ubuntu. */
export const programFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']

/**
 * What programs of the guest, which are the host's, need to read, wherever Node is installed; of
 * /etc what everybody may read.
 */
export function programFiles(): string[] {
  return [...programFolders, ...publicPaths('/etc'), ...systemFiles()]
}

/** The files of this machine that the kernel itself and Node.js need to read. */
export const systemFiles = (): string[] => [
  ...ownFiles(),
  '/proc/cpuinfo',
  '/dev/null',
  '/dev/urandom',
]

/**
 * The fewest paths that hold what every user of this machine may read in a folder; root could read
 * more. Links don't count.
 */
export function publicPaths(folder: string): string[] {
  const { paths, all } = publicIn(folder)
  return all ? [folder] : paths
}

const EVERYBODY = { read: 0o4, readAndEnter: 0o5 }

function publicIn(folder: string): { paths: string[]; all: boolean } {
  const paths: string[] = []
  let all = true
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue
    const path = join(folder, entry.name)
    const mode = lstatSync(path, { throwIfNoEntry: false })?.mode ?? 0
    const open = entry.isDirectory()
      ? (mode & EVERYBODY.readAndEnter) === EVERYBODY.readAndEnter
      : Boolean(mode & EVERYBODY.read)
    const inside = entry.isDirectory() && open ? publicIn(path) : { paths: [], all: open }
    all &&= inside.all
    paths.push(...(inside.all ? [path] : inside.paths))
  }
  return { paths, all }
}

/** The program and libraries of this process (proc_pid_maps(5)). */
export function ownFiles(): string[] {
  const mapped = readFileSync('/proc/self/maps', 'utf8').matchAll(
    /^\S+ \S+ \S+ \S+ [1-9]\d* +(\/.*)$/gm,
  )
  const files = [...mapped].map(([, path = '']) => path).filter((path) => existsSync(path))
  return [...new Set([realpathSync(process.execPath), ...files])]
}
