import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { ensureArtifact } from '../../host/artifact.ts'
import { type Progress, withProgress } from '../../host/progress.ts'
import { bytesBelow, runSupervised, runTool, type Supervised, stallSeconds } from '../../host/supervised.ts'
import { CACHE_MEGABYTES, isFullDisk, noSpace, requireSpace, SystemTrouble } from '../../host/system-trouble.ts'

/** An additional part of a tree that is not a package of this system's release. */
export interface Addition {
  /** The name of this part: a tree without it is recreated. */
  name: string
  /** Fetches it and adds it to a new tree. */
  add(tree: string, progress: Progress): Promise<void>
}

export interface PackageTree extends Omit<AptDownload, 'sources'> {
  more?: Addition
}

/** Unpacks packages of this system into a usr-merged tree below `cache`, once, and again if it is damaged. @throws Error from apt */
export async function unpackPackages(wanted: PackageTree, progress: Progress): Promise<string> {
  const { packages, more } = wanted
  const artifact = {
    path: join(wanted.cache, 'packages', wanted.name),
    parts: [...packages, ...(more ? [more.name] : [])],
    make: (fresh: string) => fetchInto(fresh, wanted, progress),
  }
  return ensureArtifact(artifact, progress)
}

async function fetchInto(fresh: string, wanted: PackageTree, progress: Progress): Promise<void> {
  const { cache, packages, more } = wanted
  requireSpace(cache, CACHE_MEGABYTES)
  await withProgress(progress, `Fetching ${more?.name ?? packages[0]} and its dependencies (once)`, async () => {
    const archives = await aptDownload(wanted, progress)
    progress.update?.('unpacking')
    mkdirSync(join(fresh, 'usr'), { recursive: true })
    await unpackArchives(archives, () => fresh)
    await more?.add(fresh, progress)
    await mergeIntoUsr(fresh)
  })
}

/** In later releases, whose packages are already usr-merged, these are links. */
const isFolderItself = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true

const links: [string, string][] = [
  ...['insmod', 'modprobe', 'rmmod', 'lsmod', 'depmod', 'modinfo'].map((name): [string, string] => [
    `usr/sbin/${name}`,
    '../bin/kmod',
  ]),
  ...['iptables', 'ip6tables'].flatMap((name) =>
    ['', '-save', '-restore'].map((form): [string, string] => [`usr/sbin/${name}${form}`, 'xtables-legacy-multi']),
  ),
]

/** Moves all below `usr`, as a real `sbin/` in an overlay would hide the host's link, and makes the links of an installation. */
async function mergeIntoUsr(fresh: string): Promise<void> {
  for (const folder of ['bin', 'sbin', 'lib', 'lib64'].filter((name) => isFolderItself(join(fresh, name)))) {
    mkdirSync(join(fresh, 'usr', folder), { recursive: true })
    await runTool(['cp', '-a', `${folder}/.`, `usr/${folder}/`], fresh)
    rmSync(join(fresh, folder), { recursive: true })
  }
  for (const [link, target] of links) {
    rmSync(join(fresh, link), { force: true })
    mkdirSync(join(fresh, link, '..'), { recursive: true })
    symlinkSync(target, join(fresh, link))
  }
  const modules = join(fresh, 'usr/lib/uml/modules')
  if (existsSync(modules)) {
    mkdirSync(join(fresh, 'usr/lib/modules'), { recursive: true })
    for (const release of readdirSync(modules))
      symlinkSync(`../uml/modules/${release}`, join(fresh, 'usr/lib/modules', release))
  }
}

export interface AptDownload {
  /** Folder for apt's lists and for the archives. */
  cache: string
  /** Names the folder of the archives, that of the lists where `sources` is given, and that of an unpacked tree. */
  name: string
  /** Names that are not in the release are ignored, except the first. */
  packages: readonly string[]
  /** Whether all dependencies are fetched, including base packages, or only those that this system lacks. */
  closure?: 'all' | 'missing'
  /** A folder of sources to use instead of the system's. */
  sources?: string
}

const WITH_DEPENDENCIES = ['install', '--download-only', '--yes', '--no-install-recommends', '--reinstall']

/**
 * Downloads packages with apt's own machinery, which checks their signatures, into separate folders, without root and without
 * changing the system.
 * @returns the folder with the .deb files
 * @throws Error with the next step if the first package is unknown or a download fails; SystemTrouble if the disk is full
 */
export async function aptDownload(
  { cache, name, packages, closure, sources }: AptDownload,
  progress: Progress,
): Promise<string> {
  const state = join(cache, 'apt', sources ? `state-${name}` : 'state')
  const archives = join(cache, 'apt', name)
  // Files of an interrupted download may belong to another release.
  rmSync(archives, { recursive: true, force: true })
  for (const folder of [join(state, 'lists', 'partial'), join(state, 'cache'), join(archives, 'partial')])
    mkdirSync(folder, { recursive: true })
  const settings = {
    'Dir::State': state,
    'Dir::State::status': sources || closure === 'all' ? '/dev/null' : '/var/lib/dpkg/status',
    'Dir::Cache': join(state, 'cache'),
    'Dir::Cache::archives': archives,
    ...(sources && { 'Dir::Etc::sourcelist': '/dev/null', 'Dir::Etc::sourceparts': sources }),
    'Acquire::Languages': 'none',
    // With apt's defaults, a server that does not respond takes minutes.
    'Acquire::Retries': '1',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
    'Debug::NoLocking': '1',
    'APT::Sandbox::User': '',
  }
  const own = ['-q', ...Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])]
  // The total of all downloads, for one line of progress.
  const reached = () => bytesBelow(join(cache, 'apt'))
  const before = reached()
  const megabytes = (bytes: number) => (Math.max(0, bytes - before) / 1_000_000).toFixed(1)
  const run = (stage: string, program: string, words: readonly string[]) => {
    const onProgress = (bytes: number) => progress.update?.(`${stage}, ${megabytes(bytes)} MB`)
    return runSupervised([program, ...own, ...words], { cwd: archives, reached, onProgress })
  }
  const update = await run('package lists', 'apt-get', ['update'])
  const refusal = refusalOf(update, cache)
  if (refusal) progress.note(`The package lists could not be refreshed (${refusal}); trying with the existing ones.`)
  const known = await run('package lists', 'apt-cache', ['--no-all-versions', 'show', ...packages])
  const available = new Set([...known.stdout.matchAll(/^Package: (\S+)$/gm)].map((match) => match[1]))
  if (!available.has(packages[0])) {
    // Damaged lists must not be used again.
    rmSync(state, { recursive: true, force: true })
    throw new Error(
      `apt does not know the package "${packages[0]}": check the network and /etc/apt/sources.list, then run the same command again.`,
    )
  }
  const words = closure ? [...WITH_DEPENDENCIES, ...(closure === 'all' ? ['?essential'] : [])] : ['download']
  const fetched = await run('packages', 'apt-get', [...words, ...packages.filter((one) => available.has(one))])
  const failure = refusalOf(fetched, cache)
  if (failure) throw new Error(`The packages could not be fetched (${failure}); run the same command again.`)
  return archives
}

/**
 * The reason why apt failed, as a clause; undefined if it succeeded.
 * @throws SystemTrouble if the disk is full */
function refusalOf({ exitCode, stdout, stderr, stalled }: Supervised, cache: string): string | undefined {
  if (stalled) return `nothing was received for ${stallSeconds()} s: check the network and the proxy that apt uses`
  if (exitCode === 0) return undefined
  if (isFullDisk(`${stdout}\n${stderr}`)) throw new SystemTrouble(noSpace(cache))
  return (stderr.trim().split('\n').at(-1) || `exit code ${exitCode}`).replace(/^[EW]: /, '').replace(/\.$/, '')
}

/** Unpacks the packages of a folder, each into the tree that `place` returns for its name, and removes them. */
export async function unpackArchives(folder: string, place: (archive: string) => string): Promise<void> {
  for (const name of readdirSync(folder).filter((entry) => entry.endsWith('.deb')))
    await runTool(['dpkg-deb', '--extract', join(folder, name), place(name)], folder)
  rmSync(folder, { recursive: true, force: true })
}
