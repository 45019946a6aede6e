import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { officialKubectl } from '../cluster/programs.ts'
import { makeOffline, unpackPackages } from '../embedded/index.ts'
import { $ } from '../host/command.ts'
import { cacheFolder, offlineRoot, projectRoot } from '../host/layout.ts'
import { UserError } from '../host/main.ts'
import { type Progress, withProgress } from '../host/progress.ts'
import { shellWord } from '../host/shell-word.ts'
import { runTool } from '../host/supervised.ts'
import { requireSpace } from '../host/system-trouble.ts'
import { timeoutScale } from '../host/wait.ts'

/** The folder in the archive. */
export const NAME = 'kube-service-labs'
const archive = join(projectRoot, 'dist', `${NAME}-linux-${arch()}.tar.gz`)
/** The archive and its contents before they are packed (measured on Debian 12: 900 MB). */
const neededMegabytes = 1200

/** Copies the tracked files of the repository in their current state. */
async function copyRepository(to: string): Promise<void> {
  const { exitCode, stdout, stderr } = await $({ cwd: projectRoot, quiet: true, nothrow: true })`git ls-files -z`
  if (exitCode !== 0)
    throw new UserError(
      `git can't list the files of "${projectRoot}" (${stderr.trim().split('\n')[0]}): run \`make bundle\` in a clone of the repository.`,
    )
  for (const name of stdout.split('\0').filter((one) => one !== '' && existsSync(join(projectRoot, one)))) {
    mkdirSync(dirname(join(to, name)), { recursive: true })
    copyFileSync(join(projectRoot, name), join(to, name))
    chmodSync(join(to, name), statSync(join(projectRoot, name)).mode & 0o111 ? 0o755 : 0o644)
  }
}

/** Copies the installed packages that package-lock.json does not mark as development dependencies. */
function copyPackages(to: string): void {
  const lock = 'node_modules/.package-lock.json'
  const { packages }: { packages: Record<string, { dev?: boolean }> } = JSON.parse(
    readFileSync(join(projectRoot, lock), 'utf8'),
  )
  for (const [path, { dev }] of Object.entries(packages))
    if (!dev && existsSync(join(projectRoot, path)))
      cpSync(join(projectRoot, path), join(to, path), { recursive: true })
  const programs = 'node_modules/.bin'
  cpSync(join(projectRoot, programs), join(to, programs), { recursive: true, verbatimSymlinks: true })
  for (const name of readdirSync(join(to, programs)))
    if (!existsSync(join(to, programs, name))) rmSync(join(to, programs, name))
  // Written last, because make treats packages that are older than package.json as outdated.
  writeFileSync(join(to, lock), readFileSync(join(projectRoot, lock)))
}

/** Debian 12 has kubectl 1.20, which works in every lab but is older than the one that learners use elsewhere. */
async function takeOfficialKubectl(offline: string, progress: Progress): Promise<void> {
  try {
    const official = await officialKubectl(progress)
    const place = join(offline, 'bin/kubectl')
    rmSync(place, { force: true })
    copyFileSync(official, place)
  } catch (error) {
    progress.note(
      `${error instanceof Error ? error.message : error} The archive gets the kubectl of this system's release.`,
    )
  }
}

/**
 * Writes the offline archive into dist/: this repository, its runtime packages, Node.js, and a root file system with a kernel,
 * for processors like this one. Resolves to its path.
 * @throws UserError in an unpacked archive, and outside a clone of the repository; SystemTrouble if the disk is full
 */
export async function writeOfflineArchive(progress: Progress): Promise<string> {
  if (offlineRoot !== undefined)
    throw new UserError('This is an unpacked offline archive already: run `make bundle` in a clone of the repository.')
  const stage = join(cacheFolder, 'bundle')
  rmSync(stage, { recursive: true, force: true })
  requireSpace(cacheFolder, neededMegabytes)
  const folder = join(stage, NAME)
  const offline = join(folder, '.offline')
  try {
    mkdirSync(offline, { recursive: true })
    await makeOffline(offline, cacheFolder, progress)
    await takeOfficialKubectl(offline, progress)
    await copyRepository(folder)
    copyPackages(folder)
    mkdirSync(dirname(archive), { recursive: true })
    const asRoot = ['--owner=0', '--group=0', '--numeric-owner']
    await withProgress(progress, 'Packing the offline archive', () =>
      runTool(['tar', '--create', '--gzip', `--file=${archive}.new`, ...asRoot, NAME], stage),
    )
    renameSync(`${archive}.new`, archive)
  } finally {
    for (const path of [stage, `${archive}.new`]) rmSync(path, { recursive: true, force: true })
  }
  return archive
}

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']
const USER = 1000

const mounts = [
  ...['-t proc proc proc', '-t sysfs sysfs sys'],
  ...devices.map((device) => `--bind /dev/${device} dev/${device}`),
]

/** Run by busybox's shell in the empty root: an ordinary user begins, who is the one that unpacks the archive. */
const session = (labs: readonly string[]) => `busybox umount -l /old && busybox rmdir /old
cd /home && busybox tar -xzf /archive.tar.gz && cd kube-service-labs || exit 2
exec .offline/bin/unshare --user --map-user=${USER} --map-group=${USER} /bin/sh -c '
busybox id
for lab in ${labs.join(' ')}; do
  ./lab $lab || exit
  ./lab -s down
done'
`

/**
 * Plays labs from the archive where there is nothing: a root with one static busybox, no network, an ordinary user. Returns the
 * exit code. Throws UserError if there is no archive.
 */
export async function playInEmptyRoot(labs: readonly string[], progress: Progress): Promise<number> {
  const kernel = shellWord(process.env.KERNEL ?? '')
  if (!existsSync(archive)) throw new UserError(`"${archive}" does not exist: run \`make bundle\` first.`)
  const tree = await unpackPackages({ cache: cacheFolder, name: 'busybox', packages: ['busybox-static'] }, progress)
  const root = mkdtempSync(join(tmpdir(), 'empty-root-'))
  try {
    for (const folder of ['bin', 'proc', 'sys', 'dev', 'tmp', 'home', 'old']) mkdirSync(join(root, folder))
    copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'bin/busybox'))
    linkSync(join(root, 'bin/busybox'), join(root, 'bin/sh'))
    copyFileSync(archive, join(root, 'archive.tar.gz'))
    for (const name of devices) writeFileSync(join(root, 'dev', name), '')
    // Not only chroot: who is in one gets no user namespace (unshare(2)).
    const script = `set -e
ip link set lo up
mount --bind . .
cd "$PWD"
${mounts.map((mount) => `mount ${mount}`).join('\n')}
pivot_root . old
exec /bin/busybox env -i PATH=/usr/bin:/bin LAB_TIMEOUT_SCALE=${timeoutScale()} KERNEL=${kernel} /bin/sh -c ${shellWord(session(labs))}`
    const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--pid', '--ipc', '--fork', '--kill-child']
    const child = spawn('unshare', [...namespaces, 'sh', '-c', script], {
      cwd: root,
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    const [code]: (number | null)[] = await once(child, 'exit')
    return code ?? 2
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
