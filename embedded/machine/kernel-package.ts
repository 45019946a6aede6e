import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { arch } from 'node:os'
import { basename, join } from 'node:path'
import { aptDownload } from '../../host/apt-download.ts'
import { $ } from '../../host/command.ts'
import type { Progress } from '../../host/progress.ts'
import { SystemTrouble } from '../../host/system-trouble.ts'
import { type Addition, unpackArchives } from './package-tree.ts'

/**
 * The release whose kernel is used on every Debian: 6.12 maps the pages around a fault at once
 * (um_tlb_sync), which makes a lab 25% faster than with 6.1 of Debian 12, and still has legacy
 * iptables (CONFIG_IP_NF_IPTABLES_LEGACY), which later packages lack.
 */
const RELEASE = 'trixie'
/**
 * Names of Debian releases in sources.list besides their codenames; other distributions may also
 * use them.
 */
const ALIASES = ['stable', 'oldstable', 'testing', 'unstable', 'sid']
/** The keys of Debian's servers, a file of every Debian. */
const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** The kernel's package, in every release. */
export const KERNEL = 'user-mode-linux'

/**
 * The supported processors: as `uname -m` and Debian's folders name them, as Kubernetes does, and
 * their loaders (ld.so(8)).
 */
const processors: Record<string, { name: string; kubernetes: string; loader: string }> = {
  x64: { name: 'x86_64', kubernetes: 'amd64', loader: 'ld-linux-x86-64.so.2' },
  arm64: { name: 'aarch64', kubernetes: 'arm64', loader: 'ld-linux-aarch64.so.1' },
}

/** That of this machine; undefined for others. */
export const processor = processors[arch()]

/** Why User-Mode Linux can't run here, as a clause; undefined where it can. */
export const umlTrouble = (): string | undefined =>
  arch() === 'x64' ? undefined : `User-Mode Linux is built for x86-64 only, and this is "${arch()}"`

const LOADER = processor?.loader ?? ''
/** Where a usr-merged tree has its libraries. */
export const LIBRARIES = `usr/lib/${processor?.name}-linux-gnu`

/**
 * Runs a program of a root file system with the libraries beside it (ld.so(8)), independent of the
 * path of that root.
 */
export const runFrom = (root: string, program: string): string[] => [
  join(root, LIBRARIES, LOADER),
  '--inhibit-cache',
  '--library-path',
  join(root, LIBRARIES),
  '--argv0',
  basename(program),
  join(root, program),
]

/**
 * In a tree that is a whole root file system (offline.ts): starts the script of the cluster, which
 * is in no folder of that root.
 */
export const FIRST_PROGRAM = 'usr/lib/uml/first'

/**
 * A tree of packages that is a whole root file system, so that no program of the machine is used.
 */
export const isWholeRoot = (tree: string) => existsSync(join(tree, FIRST_PROGRAM))

/**
 * The folder of a tree in which its kernel is started, with the kernel's own C library if it needs
 * one.
 */
const KERNEL_FOLDER = 'usr/lib/uml/libc'
/**
 * The library of uml-shim.c, which is preloaded: without it, User-Mode Linux crashes on processors
 * with AMX and when a fork fails, and is slower.
 */
export const SHIM = `${KERNEL_FOLDER}/uml-shim.so`

/**
 * How to start the kernel of a finished tree: the program, behind the environment it needs, and the
 * folder to start it in.
 */
export function kernelProgram(tree: string): { command: string[]; directory: string } {
  const directory = join(tree, KERNEL_FOLDER)
  // Not for the shell and taskset that start it: they are the host's.
  const ownLibc = existsSync(join(directory, LOADER)) ? ['LD_LIBRARY_PATH=.'] : []
  const env = isWholeRoot(tree) ? runFrom(tree, 'usr/bin/env') : ['env']
  // A relative path, as spaces and colons would end it.
  const preload = `LD_PRELOAD=./${basename(SHIM)}`
  return { command: [...env, ...ownLibc, preload, join(tree, 'usr/bin/linux.uml')], directory }
}

/**
 * The kernel as one more part of a tree on Debian; undefined where it is a package of the system's
 * own release.
 */
export function kernelAddition(cache: string): Addition | undefined {
  const { ID: id, VERSION_CODENAME: own = '' } = osRelease()
  if (processor !== processors.x64 || id !== 'debian' || own === RELEASE || !own) return undefined
  return {
    name: `${KERNEL}/${RELEASE}`,
    add: (tree, progress) => addKernel(tree, cache, own, progress),
  }
}

async function addKernel(
  tree: string,
  cache: string,
  own: string,
  progress: Progress,
): Promise<void> {
  const name = `${KERNEL}-${RELEASE}`
  const sources = join(cache, 'apt', `sources-${name}`)
  rmSync(sources, { recursive: true, force: true })
  mkdirSync(sources, { recursive: true })
  const format = '$(RELEASE) $(COMPONENT) $(REPO_URI)'
  const { stdout } = await $({
    quiet: true,
    nothrow: true,
  })`apt-get indextargets --format ${format} ${'Created-By: Packages'}`
  const byName = sourcesOfRelease(stdout, [own], RELEASE)
  writeFileSync(join(sources, 'kernel.list'), byName || sourcesOfRelease(stdout, ALIASES, RELEASE))
  const settings = {
    'Dir::State::status': '/dev/null',
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': sources,
  }
  let archives: string
  try {
    archives = await aptDownload({ cache, name, packages: [KERNEL, 'libc6'], settings }, progress)
  } catch (error) {
    if (error instanceof SystemTrouble) throw error
    const reason = error instanceof Error ? error.message : String(error)
    progress.note(
      `The kernel of Debian "${RELEASE}" is not available: ${reason} Using that of "${own}", which is slower.`,
    )
    return unpackArchives(
      await aptDownload({ cache, name: KERNEL, packages: [KERNEL] }, progress),
      () => tree,
    )
  }
  const aside = join(tree, 'libc6')
  await unpackArchives(archives, (archive) => (archive.startsWith('libc6_') ? aside : tree))
  bringLibc(tree, aside)
  rmSync(aside, { recursive: true, force: true })
}

/** Copies the C library of a root file system to the kernel of a tree, unless it has one. */
export function bringLibc(tree: string, from: string): void {
  const libc = join(tree, KERNEL_FOLDER)
  if (existsSync(join(libc, LOADER))) return
  mkdirSync(libc, { recursive: true })
  for (const file of [LOADER, 'libc.so.6'])
    copyFileSync(join(from, LIBRARIES, file), join(libc, file))
  const program = join(tree, 'usr/bin/linux.uml')
  writeFileSync(program, withLoaderHere(readFileSync(program)))
}

/**
 * The program with another path to its loader (PT_INTERP): a file in the folder where it is
 * started. Passing the program to a loader (`ld.so --library-path DIR linux.uml`) fails, because
 * User-Mode Linux places its memory behind the end of its own program. `patchelf --set-interpreter`
 * does what this function does, and would be one more package to install.
 * @throws Error when the program asks for another loader
 */
export function withLoaderHere(program: Buffer): Buffer {
  const usual = Buffer.from(`/lib64/${LOADER}\0`)
  const at = program.indexOf(usual)
  if (at === -1) throw new Error(`The kernel "${KERNEL}" has no loader "/lib64/${LOADER}".`)
  const changed = Buffer.from(program)
  changed.fill(0, at, at + usual.length)
  changed.write(LOADER, at)
  return changed
}

/** os-release(5), for values without escapes. */
function osRelease(): Record<string, string> {
  const file = '/etc/os-release'
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  return Object.fromEntries(
    [...text.matchAll(/^(\w+)="?([^"\n]*)"?$/gm)].map(([, key, value]) => [key, value]),
  )
}

/**
 * Sources (sources.list(5)) of another release on the system's own servers, from lines of
 * `apt-get indextargets`; main packages only.
 */
export function sourcesOfRelease(targets: string, own: readonly string[], release: string): string {
  const servers = targets.split('\n').flatMap((line) => {
    const [suite = '', component, server = ''] = line.split(' ')
    return own.includes(suite) && component === 'main' ? [server] : []
  })
  return [...new Set(servers)]
    .map((server) => `deb [signed-by=${KEYS}] ${server} ${release} main\n`)
    .join('')
}
