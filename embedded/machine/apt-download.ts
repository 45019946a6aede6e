import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { $ } from 'zx/core'
import type { Progress } from '../../cluster/driver.ts'

export interface AptDownload {
  /** Folder for apt's lists and for the archives. */
  cache: string
  /** Names the folder of the archives, and of the lists where `sources` is given. */
  name: string
  /** Names that the release does not know are left out, but for the first. */
  packages: readonly string[]
  /** A folder of sources to take instead of the system's. */
  sources?: string
}

/**
 * Downloads packages with apt's own machinery, which checks their signatures, into folders of ours: without root, and nothing
 * of the system's changes.
 * @returns the folder with the .deb files
 * @throws Error, in a sentence with what to do, when the first package is not known or something can't be fetched
 */
export async function aptDownload(
  { cache, name, packages, sources }: AptDownload,
  progress: Progress,
): Promise<string> {
  const state = join(cache, 'apt', sources ? `state-${name}` : 'state')
  const archives = join(cache, 'apt', name)
  for (const folder of [join(state, 'lists', 'partial'), join(state, 'cache'), join(archives, 'partial')])
    mkdirSync(folder, { recursive: true })
  const own = [
    ...['-o', `Dir::State=${state}`, '-o', `Dir::State::status=${sources ? '/dev/null' : '/var/lib/dpkg/status'}`],
    ...['-o', `Dir::Cache=${join(state, 'cache')}`, '-o', `Dir::Cache::archives=${archives}`],
    ...(sources ? ['-o', 'Dir::Etc::sourcelist=/dev/null', '-o', `Dir::Etc::sourceparts=${sources}`] : []),
    ...['-o', 'Acquire::Languages=none', '-o', 'Debug::NoLocking=1', '-o', 'APT::Sandbox::User=', '-q'],
  ]
  const run = $({ cwd: archives, quiet: true, nothrow: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const update = await run`apt-get ${own} update`
  if (update.exitCode !== 0) progress.note('The package lists could not be refreshed; trying with those that are here.')
  const known = await run`apt-cache ${own} --no-all-versions show ${packages}`
  const available = new Set([...known.stdout.matchAll(/^Package: (\S+)$/gm)].map((match) => match[1]))
  if (!available.has(packages[0]))
    throw new Error(
      `apt knows no package "${packages[0]}": check the network and /etc/apt/sources.list, then run the same command again.`,
    )
  const fetched = await run`apt-get ${own} download ${packages.filter((one) => available.has(one))}`
  if (fetched.exitCode !== 0)
    throw new Error(
      `The packages could not be fetched (${fetched.stderr.trim().split('\n').at(-1)}); run the same command again.`,
    )
  return archives
}

/** The packages in a folder. */
export function archivesIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.deb'))
    .map((name) => join(folder, name))
}
