import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { arch } from 'node:os'
import { dirname, join } from 'node:path'
import { officialKubectl } from '../cluster/programs.ts'
import { makeOffline } from '../embedded/index.ts'
import { $ } from '../host/command.ts'
import { cacheFolder, offlineRoot, projectRoot } from '../host/layout.ts'
import { Refusal } from '../host/main.ts'
import { type Progress, withProgress } from '../host/progress.ts'
import { runTool } from '../host/supervised.ts'
import { requireSpace } from '../host/system-trouble.ts'

/** The folder in the archive. */
export const NAME = 'kube-service-labs'
export const ARCHIVE = join(projectRoot, 'dist', `${NAME}-linux-${arch()}.tar.gz`)
/** The archive and its contents before they are packed (measured on Debian 12: 900 MB). */
const neededMegabytes = 1200

/** Copies the tracked files of the repository in their current state. */
async function copyRepository(to: string): Promise<void> {
  const { exitCode, stdout, stderr } = await $({
    cwd: projectRoot,
    quiet: true,
    nothrow: true,
  })`git ls-files -z`
  if (exitCode !== 0)
    throw new Refusal(
      `git can't list the files of "${projectRoot}" (${stderr.trim().split('\n')[0]}): run \`make bundle\` in a clone of the repository.`,
    )
  for (const name of stdout
    .split('\0')
    .filter((one) => one !== '' && existsSync(join(projectRoot, one)))) {
    mkdirSync(dirname(join(to, name)), { recursive: true })
    copyFileSync(join(projectRoot, name), join(to, name))
    chmodSync(join(to, name), statSync(join(projectRoot, name)).mode & 0o111 ? 0o755 : 0o644)
  }
}

/**
 * Copies the installed packages that package-lock.json does not mark as development dependencies.
 */
function copyPackages(to: string): void {
  const lock = 'node_modules/.package-lock.json'
  const { packages }: { packages: Record<string, { dev?: boolean }> } = JSON.parse(
    readFileSync(join(projectRoot, lock), 'utf8'),
  )
  for (const [path, { dev }] of Object.entries(packages))
    if (!dev && existsSync(join(projectRoot, path)))
      cpSync(join(projectRoot, path), join(to, path), { recursive: true })
  const programs = 'node_modules/.bin'
  cpSync(join(projectRoot, programs), join(to, programs), {
    recursive: true,
    verbatimSymlinks: true,
  })
  for (const name of readdirSync(join(to, programs)))
    if (!existsSync(join(to, programs, name))) rmSync(join(to, programs, name))
  // Written last, because make treats packages that are older than package.json as outdated.
  writeFileSync(join(to, lock), readFileSync(join(projectRoot, lock)))
}

/**
 * Debian 12 has kubectl 1.20, which works in every lab but is older than the one that learners use
 * elsewhere.
 */
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
 * Writes the offline archive into dist/: this repository, its runtime packages, Node.js, and a root
 * file system with a kernel, for processors like this one. Resolves to its path.
 * @throws Refusal in an unpacked archive, and outside a clone of the repository; SystemTrouble if
 * the disk is full
 */
export async function writeOfflineArchive(progress: Progress): Promise<string> {
  if (offlineRoot !== undefined)
    throw new Refusal(
      'This is an unpacked offline archive already: run `make bundle` in a clone of the repository.',
    )
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
    mkdirSync(dirname(ARCHIVE), { recursive: true })
    const asRoot = ['--owner=0', '--group=0', '--numeric-owner']
    await withProgress(progress, 'Packing the offline archive', () =>
      runTool(['tar', '--create', '--gzip', `--file=${ARCHIVE}.new`, ...asRoot, NAME], stage),
    )
    renameSync(`${ARCHIVE}.new`, ARCHIVE)
  } finally {
    for (const path of [stage, `${ARCHIVE}.new`]) rmSync(path, { recursive: true, force: true })
  }
  return ARCHIVE
}
