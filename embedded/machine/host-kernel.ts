import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { offlineRoot, projectRoot } from '../../host/layout.ts'
import { shellVariables, shellWord } from '../../host/shell-word.ts'
import { ownFiles, programFolders } from './confinement.ts'
import { requireLimits } from './host-resources.ts'
import type { BootOptions, KernelStart } from './kernel.ts'
import { isWholeRoot } from './kernel-package.ts'
import { fstabWord, GUEST_CONFINE } from './machine.ts'

/**
 * Root of this machine changes to this user before any program of the guest runs, because root of
 * the machine can change files of root in /proc/sys and /sys from every namespace.
 */
const NOBODY = 65_534

/** A cluster of three nodes has 60 processes and threads, and a hundred Pods have 400 more. */
const GUEST_PROCESSES = 4096

/**
 * The folder in which the guest's root is set up. It stays empty, because the mounts on it are in a
 * separate namespace.
 */
const makePlace = () => mkdtempSync(join(tmpdir(), 'kube-service-labs-'))

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']

/**
 * The folders of programs that are real folders in a root file system, and those that are links.
 */
function programRoots(root: string): { folders: string[]; links: string[] } {
  const there = programFolders.filter((folder) => existsSync(join(root, folder)))
  const isLink = (folder: string) => lstatSync(join(root, folder)).isSymbolicLink()
  return { folders: there.filter((folder) => !isLink(folder)), links: there.filter(isLink) }
}

/**
 * The mounts on the guest's root: a tmpfs with copies of small files, and an overlay over each
 * folder of programs. The lower folders are reached through overlayfs only, which never writes to
 * them; no other file of the machine is accessible after the old root is unmounted.
 */
function rootMounts(place: string, folders: readonly string[], whole: boolean): string[] {
  const at = (path: string) => fstabWord(join(place, 'root', path))
  const layers = folders.map((folder) => {
    const lower = whole
      ? [`packages${folder}`]
      : [...['packages/usr'].filter(() => folder === '/usr'), folder]
    return `overlay ${at(folder)} overlay ${overlay(lower.join(':'), `upper${folder}`, `work${folder}`)}`
  })
  return [
    ...layers,
    `proc ${at('proc')} proc nosuid,nodev,noexec`,
    `sysfs ${at('sys')} sysfs nosuid,nodev,noexec`,
    `tmpfs ${at('run')} tmpfs mode=0755`,
    // ip -n puts another sysfs in the place of the one at /sys, which the kernel allows only where
    // a further one can be seen.
    `sysfs ${at('run/sysfs')} sysfs X-mount.mkdir`,
    `${at(GUEST_CONFINE)} ${at(GUEST_CONFINE)} none bind,ro`,
    ...devices.map((name) => `/dev/${name} ${at(`dev/${name}`)} none bind`),
    `devpts ${at('dev/pts')} devpts newinstance,ptmxmode=0666,mode=0620`,
  ]
}

const overlay = (lower: string, upper: string, work: string) =>
  `lowerdir=${lower},upperdir=${upper},workdir=${work},userxattr`

/**
 * New namespaces of every kind, in which the caller is root; the first process ends with this one,
 * and all others with the first. The user namespace is created first: files that are created before
 * its ids are mapped, such as /proc/net/ip_tables_names of a network namespace, belong to root of
 * the machine.
 */
const namespaces = [
  'unshare',
  '--user',
  '--map-root-user',
  'unshare',
  '--mount',
  '--net',
  '--pid',
  '--uts',
  '--ipc',
  '--cgroup',
  '--fork',
  '--kill-child',
]

/** Runs as an ordinary user, even if root of the machine starts it. */
const asUser = () =>
  process.getuid?.() === 0
    ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups']
    : []

/**
 * Tries what the guest's root and those of nodes and Pods above it need.
 * @param packages the root file system of an offline archive; absent: programs are the machine's
 * @returns how it failed, in the words of the program that did; undefined where all of it works
 * here
 */
function namespacesFail(packages?: string): string | undefined {
  const place = makePlace()
  const script = `set -e
mount -t tmpfs tmpfs ${shellWord(place)}
mkdir ${shellWord(`${place}/packages`)}
# By another name it may be in a folder that this user can't enter.
${packages === undefined ? '' : `mount --no-canonicalize -o bind . ${shellWord(`${place}/packages`)}`}
cd ${shellWord(place)}
mkdir lower one work-one two work-two proc sys
${programRoots(packages ?? '/')
  .folders.map((folder) => (packages === undefined ? folder : `packages${folder}`))
  .map(
    (folder) => `mount -t overlay overlay -o ${overlay(`two:${folder}`, 'one', 'work-one')} lower
mount -t overlay overlay -o ${overlay('lower', 'two', 'work-two')} two
umount two lower`,
  )
  .join('\n')}
mount -t proc proc proc
mount -t sysfs sysfs sys`
  const [program = '', ...args] = [...asUser(), ...namespaces, 'sh', '-c', script]
  try {
    const tried = spawnSync(program, args, {
      cwd: packages ?? '/',
      encoding: 'utf8',
      timeout: 20_000,
    })
    if (tried.status === 0) return undefined
    // mount of util-linux 2.39 and later has a second line that only names dmesg.
    const lines = tried.stderr
      .split('\n')
      .filter((line) => line.trim() && !line.includes('dmesg(1)'))
    return tried.error?.message ?? lines.at(-1)?.trim() ?? ''
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/**
 * This machine's own kernel, in namespaces of an ordinary user (user_namespaces(7)): the guest is
 * root only of its own objects.
 */
export function hostKernel(options: BootOptions, agent: string): KernelStart {
  requireLimits(0)
  const packages = realpathSync(options.packages)
  const whole = isWholeRoot(packages)
  const { folders, links } = programRoots(whole ? packages : '/')
  const isRoot = process.getuid?.() === 0
  const place = makePlace()
  const readable = whole
    ? []
    : [...ownFiles(), ...(options.readable ?? []).map((file) => realpathSync(file))]
  const files = [
    agent,
    ...readable.filter((file) => !folders.some((folder) => file.startsWith(`${folder}/`))),
  ]
  const variables = shellVariables({
    place,
    packages,
    whole: whole ? 'yes' : '',
    uid: String(isRoot ? NOBODY : 0),
    agent,
    confine: GUEST_CONFINE,
    processes: String(GUEST_PROCESSES),
    folders: folders.join(' '),
    links: links.join(' '),
    devices: devices.join(' '),
    fstab: rootMounts(place, folders, whole).join('\n'),
    node: whole ? '/usr/bin/node' : realpathSync(process.execPath),
  })
  const script =
    variables + readFileSync(join(projectRoot, 'embedded/machine/host-root.sh'), 'utf8')
  const fetch = `fetch_files ${files.map(shellWord).join(' ')}\n`
  // Root of the machine fetches the files before it becomes another user.
  const before = isRoot
    ? ['unshare', '--mount', 'sh', '-c', `${script}${fetch}exec "$@"`, 'sh', ...asUser()]
    : []
  const command = [
    ...before,
    ...namespaces,
    'sh',
    '-c',
    `${script}${isRoot ? '' : fetch}run_agent\n`,
  ]
  return {
    command,
    cwd: '/',
    env: { TMPDIR: place },
    windowBytes: 1024 * 1024,
    // An overlay does not include mounts of its lower layer, so each folder of programs gets a
    // separate overlay.
    ownKernel: false,
    layer: (root, upper, work) => ({
      folders: folders.flatMap((folder) => [
        join(upper, folder),
        join(work, folder),
        join(work, 'root'),
      ]),
      mounts: [
        `overlay ${root} overlay ${overlay('/', upper, join(work, 'root'))} 0 0`,
        ...folders.map(
          (folder) =>
            `overlay ${root}${folder} overlay ${overlay(folder, upper + folder, work + folder)} 0 0`,
        ),
      ],
    }),
    booted: () => rmSync(place, { recursive: true, force: true }),
    ended: () => {},
  }
}

/**
 * Why this machine's own kernel can't be used for the guest, and how to change that if it is
 * possible.
 */
export interface HostKernelTrouble {
  detail: string
  fix?: string
}

/**
 * Settings that forbid namespaces to an ordinary user: a file of /proc/sys, the value that forbids,
 * and the one that allows.
 */
const settings = [
  [
    'kernel/apparmor_restrict_unprivileged_userns',
    1,
    0,
    'AppArmor forbids ordinary users user namespaces (Ubuntu since 23.10)',
  ],
  ['kernel/unprivileged_userns_clone', 0, 1, 'this kernel forbids ordinary users user namespaces'],
  ['user/max_user_namespaces', 0, 15_000, 'user namespaces are disabled'],
] as const

/**
 * The setting that forbids namespaces to this user, and the command that changes it. `sysctls` is
 * /proc/sys, or a test folder.
 */
export function forbiddingSetting(sysctls = '/proc/sys'): HostKernelTrouble | undefined {
  const found = settings.find(([name, forbids]) => {
    const file = join(sysctls, name)
    return existsSync(file) && Number(readFileSync(file, 'utf8')) === forbids
  })
  if (!found) return undefined
  const [name, , allows, detail] = found
  const key = name.replace('/', '.')
  return { detail: `${detail}: ${key}`, fix: `sudo sysctl ${key}=${allows}` }
}

/** Tests all steps that set up the guest's root, in 0.1 s; undefined if they work. */
export function hostKernelTrouble(sysctls?: string): HostKernelTrouble | undefined {
  const reason = namespacesFail(offlineRoot)
  if (reason === undefined) return undefined
  const isFiltered = /^Seccomp:\s+2$/m.test(readFileSync('/proc/self/status', 'utf8'))
  if (isFiltered && /^unshare: .*not permitted/.test(reason))
    return { detail: 'a seccomp filter, as container engines set one, forbids user namespaces' }
  return (
    forbiddingSetting(sysctls) ?? {
      detail: `namespaces of an ordinary user can't be set up: ${reason}`,
    }
  )
}
