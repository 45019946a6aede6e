import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { $ } from 'zx/core'
import type { Progress } from '../../cluster/driver.ts'
import { oneAtATime } from '../../host/one-at-a-time.ts'
import { aptDownload, archivesIn } from './apt-download.ts'

/** Lists, in a finished tree, what it was made from. */
const stampName = '.complete'

/** What goes into a tree and is not simply a package of this system's release. */
export interface Addition {
  /** Names it in the tree's stamp: a tree without it is made anew. */
  name: string
  /** Fetches it; what it resolves to puts it into a fresh tree. */
  fetch(progress: Progress): Promise<(tree: string) => Promise<void>>
}

export interface PackageTree {
  cache: string
  /** Of the tree's folder. */
  name: string
  /** Names that this release does not know are left out, but for the first. */
  packages: readonly string[]
  more?: Addition
}

/**
 * Unpacks packages of this Debian or Ubuntu into a tree of their own below `cache`, once.
 * @returns the tree's root, usr-merged
 * @throws Error when something can't be fetched
 */
export async function unpackPackages(wanted: PackageTree, progress: Progress): Promise<string> {
  const tree = join(wanted.cache, 'packages', wanted.name)
  if (isComplete(tree, wanted)) return tree
  const doing = 'fetches the packages'
  await oneAtATime(`${tree}.lock`, () => fetchInto(tree, wanted, progress), { doing, progress })
  return tree
}

const contents = ({ packages, more }: PackageTree) => [...packages, ...(more ? [more.name] : [])]

function isComplete(tree: string, wanted: PackageTree): boolean {
  const stamp = join(tree, stampName)
  const has = existsSync(stamp) ? readFileSync(stamp, 'utf8').split('\n') : []
  return contents(wanted).every((one) => has.includes(one))
}

async function fetchInto(tree: string, wanted: PackageTree, progress: Progress): Promise<void> {
  // Whoever worked before us may have done it all.
  if (isComplete(tree, wanted)) return
  const { more } = wanted
  progress.start(`Fetching ${more?.name ?? wanted.packages[0]} and what goes with it (once)`)
  try {
    const [archives, add] = await Promise.all([aptDownload(wanted, progress), more?.fetch(progress)])
    await unpack(archives, tree, contents(wanted).join('\n'), add)
    rmSync(archives, { recursive: true, force: true })
  } catch (error) {
    progress.end(false)
    throw error
  }
  progress.end(true)
}

const links: [string, string][] = [
  ...['insmod', 'modprobe', 'rmmod', 'lsmod', 'depmod', 'modinfo'].map((name): [string, string] => [
    `usr/sbin/${name}`,
    '../bin/kmod',
  ]),
  ...['iptables', 'ip6tables'].flatMap((name) =>
    ['', '-save', '-restore'].map((form): [string, string] => [`usr/sbin/${name}${form}`, 'xtables-legacy-multi']),
  ),
]

/**
 * Unpacks into a fresh tree and puts it in place whole. The tree is usr-merged, because a real `sbin/` in an overlay layer
 * would hide the host's `/sbin` link; what alternatives and absolute links would do at installation is done here.
 */
async function unpack(
  archives: string,
  tree: string,
  stamp: string,
  add: ((tree: string) => Promise<void>) | undefined,
): Promise<void> {
  const fresh = `${tree}-${process.pid}`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(join(fresh, 'usr'), { recursive: true })
  const run = $({ quiet: true, cwd: fresh })
  for (const archive of archivesIn(archives)) await run`dpkg-deb --extract ${archive} .`
  await add?.(fresh)
  for (const folder of ['bin', 'sbin', 'lib', 'lib64'].filter((name) => existsSync(join(fresh, name))))
    await run`mkdir -p usr/${folder} && cp -a ${folder}/. usr/${folder}/ && rm -rf ${folder}`
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
  writeFileSync(join(fresh, stampName), stamp)
  rmSync(tree, { recursive: true, force: true })
  renameSync(fresh, tree)
}
