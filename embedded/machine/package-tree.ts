import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type AptDownload, aptDownload } from '../../host/apt-download.ts'
import { ensureArtifact } from '../../host/artifact.ts'
import { type Progress, withProgress } from '../../host/progress.ts'
import { runTool } from '../../host/supervised.ts'
import { CACHE_MEGABYTES, requireSpace } from '../../host/system-trouble.ts'

/** An additional part of a tree that is not a package of this system's release. */
export interface Addition {
  /** The name of this part: a tree without it is recreated. */
  name: string
  /** Fetches it and adds it to a new tree. */
  add(tree: string, progress: Progress): Promise<void>
}

export interface PackageTree extends Omit<AptDownload, 'settings'> {
  more?: Addition
}

/**
 * Unpacks packages of this system into a usr-merged tree below `cache`, once, and again if it is
 * damaged. @throws Error from apt
 */
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
  await withProgress(
    progress,
    `Fetching ${more?.name ?? packages[0]} and its dependencies (once)`,
    async () => {
      const archives = await aptDownload(wanted, progress)
      progress.update?.('unpacking')
      mkdirSync(join(fresh, 'usr'), { recursive: true })
      await unpackArchives(archives, () => fresh)
      await more?.add(fresh, progress)
      await mergeIntoUsr(fresh)
    },
  )
}

/** In later releases, whose packages are already usr-merged, these are links. */
const isFolderItself = (path: string) =>
  lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true

const links: [string, string][] = [
  ...['insmod', 'modprobe', 'rmmod', 'lsmod', 'depmod', 'modinfo'].map((name): [string, string] => [
    `usr/sbin/${name}`,
    '../bin/kmod',
  ]),
  ...['iptables', 'ip6tables'].flatMap((name) =>
    ['', '-save', '-restore'].map((form): [string, string] => [
      `usr/sbin/${name}${form}`,
      'xtables-legacy-multi',
    ]),
  ),
]

/**
 * Moves all below `usr`, as a real `sbin/` in an overlay would hide the host's link, and makes the
 * links of an installation.
 */
async function mergeIntoUsr(fresh: string): Promise<void> {
  for (const folder of ['bin', 'sbin', 'lib', 'lib64'].filter((name) =>
    isFolderItself(join(fresh, name)),
  )) {
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

/**
 * Unpacks the packages of a folder, each into the tree that `place` returns for its name, and
 * removes them.
 */
export async function unpackArchives(
  folder: string,
  place: (archive: string) => string,
): Promise<void> {
  for (const name of readdirSync(folder).filter((entry) => entry.endsWith('.deb')))
    await runTool(['dpkg-deb', '--extract', join(folder, name), place(name)], folder)
  rmSync(folder, { recursive: true, force: true })
}
