import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Progress } from '../../host/progress.ts'
import { bytesBelow, runSupervised, type Supervised, stallSeconds } from '../../host/supervised.ts'
import { isFullDisk, noSpace, SystemTrouble } from '../../host/system-trouble.ts'

export interface AptDownload {
  /** Folder for apt's lists and for the archives. */
  cache: string
  /** Names the folder of the archives, and of the lists where `sources` is given. */
  name: string
  /** Names that the release does not know are left out, but for the first. */
  packages: readonly string[]
  /** What they depend on comes with them: all of it with what every system of this release has, or what this system lacks. */
  closure?: 'all' | 'missing'
  /** A folder of sources to take instead of the system's. */
  sources?: string
  /** Ends it. */
  signal?: AbortSignal
}

/** A server that does not answer is given up sooner than by apt's defaults, which add up to minutes. */
const APT_TIMEOUTS = ['-o', 'Acquire::Retries=1', '-o', 'Acquire::http::Timeout=20', '-o', 'Acquire::https::Timeout=20']

const WITH_DEPENDENCIES = ['install', '--download-only', '--yes', '--no-install-recommends', '--reinstall']

/**
 * Downloads packages with apt's own machinery, which checks their signatures, into folders of ours: without root, and nothing
 * of the system's changes.
 * @returns the folder with the .deb files
 * @throws Error, in a sentence with what to do, when the first package is not known or something can't be fetched; SystemTrouble
 * where the disk is full
 */
export async function aptDownload(
  { cache, name, packages, closure, sources, signal }: AptDownload,
  progress: Progress,
): Promise<string> {
  const state = join(cache, 'apt', sources ? `state-${name}` : 'state')
  const archives = join(cache, 'apt', name)
  // What a download that was cut off has left may be of another release by now.
  rmSync(archives, { recursive: true, force: true })
  for (const folder of [join(state, 'lists', 'partial'), join(state, 'cache'), join(archives, 'partial')])
    mkdirSync(folder, { recursive: true })
  const own = [
    ...[
      '-o',
      `Dir::State=${state}`,
      '-o',
      `Dir::State::status=${sources || closure === 'all' ? '/dev/null' : '/var/lib/dpkg/status'}`,
    ],
    ...['-o', `Dir::Cache=${join(state, 'cache')}`, '-o', `Dir::Cache::archives=${archives}`],
    ...(sources ? ['-o', 'Dir::Etc::sourcelist=/dev/null', '-o', `Dir::Etc::sourceparts=${sources}`] : []),
    ...[
      '-o',
      'Acquire::Languages=none',
      '-o',
      'Debug::NoLocking=1',
      '-o',
      'APT::Sandbox::User=',
      '-q',
      ...APT_TIMEOUTS,
    ],
  ]
  // All that is fetched at the same time: one number for the one line of progress.
  const reached = () => bytesBelow(join(cache, 'apt'))
  const before = reached()
  const megabytes = (bytes: number) => (Math.max(0, bytes - before) / 1_000_000).toFixed(1)
  const run = async (stage: string, program: string, words: readonly string[]) => {
    const onProgress = (bytes: number) => progress.update?.(`${stage}, ${megabytes(bytes)} MB`)
    const ended = await runSupervised([program, ...own, ...words], { cwd: archives, reached, onProgress, signal })
    signal?.throwIfAborted()
    return ended
  }
  const update = await run('package lists', 'apt-get', ['update'])
  const refusal = refusalOf(update, cache)
  if (refusal) progress.note(`The package lists could not be refreshed (${refusal}); trying with those that are here.`)
  const known = await run('package lists', 'apt-cache', ['--no-all-versions', 'show', ...packages])
  const available = new Set([...known.stdout.matchAll(/^Package: (\S+)$/gm)].map((match) => match[1]))
  if (!available.has(packages[0])) {
    // Lists that are damaged are not taken for good ones again.
    rmSync(state, { recursive: true, force: true })
    throw new Error(
      `apt knows no package "${packages[0]}": check the network and /etc/apt/sources.list, then run the same command again.`,
    )
  }
  const words = closure ? [...WITH_DEPENDENCIES, ...(closure === 'all' ? ['?essential'] : [])] : ['download']
  const fetched = await run('packages', 'apt-get', [...words, ...packages.filter((one) => available.has(one))])
  const failure = refusalOf(fetched, cache)
  if (failure) throw new Error(`The packages could not be fetched (${failure}); run the same command again.`)
  return archives
}

/**
 * Why apt failed, as a clause; undefined when it did not.
 * @throws SystemTrouble where the disk is full
 */
function refusalOf({ exitCode, stdout, stderr, stalled }: Supervised, cache: string): string | undefined {
  if (stalled) return `nothing was received for ${stallSeconds()} s: check the network and the proxy that apt uses`
  if (exitCode === 0) return undefined
  if (isFullDisk(`${stdout}\n${stderr}`)) throw new SystemTrouble(noSpace(cache))
  return (stderr.trim().split('\n').at(-1) || `exit code ${exitCode}`).replace(/^[EW]: /, '').replace(/\.$/, '')
}

/** The packages in a folder. */
export function archivesIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.deb'))
    .map((name) => join(folder, name))
}
