import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Progress } from './progress.ts'
import { bytesBelow, runSupervised, type Supervised, stallSeconds } from './supervised.ts'
import { isFullDisk, noSpace, SystemTrouble } from './system-trouble.ts'

export interface AptDownload {
  /** Folder for apt's lists and for the archives. */
  cache: string
  /**
   * Names the folder of the archives, that of the lists where `settings` are given, and that of an
   * unpacked tree.
   */
  name: string
  /** Names that are not in the release are ignored, except the first. */
  packages: readonly string[]
  /**
   * Whether all dependencies are fetched, including base packages, or only those that this system
   * lacks.
   */
  closure?: 'all' | 'missing'
  /**
   * apt's settings for packages that are not for this system: sources, keys, processor, what is
   * installed.
   */
  settings?: Readonly<Record<string, string>>
}

const WITH_DEPENDENCIES = [
  'install',
  '--download-only',
  '--yes',
  '--no-install-recommends',
  '--reinstall',
]

/**
 * Downloads packages with apt's own machinery, which checks their signatures, into separate
 * folders, without root and without changing the system.
 * @returns the folder with the .deb files
 * @throws Error with the next step if the first package is unknown or a download fails;
 * SystemTrouble if the disk is full
 */
export async function aptDownload(
  { cache, name, packages, closure, settings }: AptDownload,
  progress: Progress,
): Promise<string> {
  const state = join(cache, 'apt', settings ? `state-${name}` : 'state')
  const archives = join(cache, 'apt', name)
  // Files of an interrupted download may belong to another release.
  rmSync(archives, { recursive: true, force: true })
  for (const folder of [
    join(state, 'lists', 'partial'),
    join(state, 'cache'),
    join(archives, 'partial'),
  ])
    mkdirSync(folder, { recursive: true })
  const all = {
    'Dir::State': state,
    'Dir::State::status': closure === 'all' ? '/dev/null' : '/var/lib/dpkg/status',
    'Dir::Cache': join(state, 'cache'),
    'Dir::Cache::archives': archives,
    'Acquire::Languages': 'none',
    // With apt's defaults, a server that does not respond takes minutes.
    'Acquire::Retries': '1',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
    'Debug::NoLocking': '1',
    'APT::Sandbox::User': '',
    ...settings,
  }
  const own = ['-q', ...Object.entries(all).flatMap(([name, value]) => ['-o', `${name}=${value}`])]
  // The total of all downloads, for one line of progress.
  const reached = () => bytesBelow(join(cache, 'apt'))
  const before = reached()
  const megabytes = (bytes: number) => (Math.max(0, bytes - before) / 1_000_000).toFixed(1)
  const run = (stage: string, program: string, args: readonly string[]) => {
    const onProgress = (bytes: number) => progress.update?.(`${stage}, ${megabytes(bytes)} MB`)
    return runSupervised([program, ...own, ...args], { cwd: archives, reached, onProgress })
  }
  const update = await run('package lists', 'apt-get', ['update'])
  const refusal = aptFailure(update, cache)
  if (refusal)
    progress.note(
      `The package lists could not be refreshed (${refusal}); trying with the existing ones.`,
    )
  const known = await run('package lists', 'apt-cache', ['--no-all-versions', 'show', ...packages])
  const available = new Set(
    [...known.stdout.matchAll(/^Package: (\S+)$/gm)].map((match) => match[1]),
  )
  if (!available.has(packages[0])) {
    // Damaged lists must not be used again.
    rmSync(state, { recursive: true, force: true })
    const fault = refusal
      ? `The package lists could not be fetched (${refusal}); run`
      : `apt does not know the package "${packages[0]}": check the network and /etc/apt/sources.list, then run`
    throw new Error(`${fault} the same command again.`)
  }
  const names = closure
    ? [...WITH_DEPENDENCIES, ...(closure === 'all' ? ['?essential'] : [])]
    : ['download']
  const fetched = await run('packages', 'apt-get', [
    ...names,
    ...packages.filter((one) => available.has(one)),
  ])
  const failure = aptFailure(fetched, cache)
  if (failure)
    throw new Error(`The packages could not be fetched (${failure}); run the same command again.`)
  return archives
}

/**
 * The reason why apt failed, as a clause; undefined if it succeeded.
 * @throws SystemTrouble if the disk is full */
function aptFailure(
  { exitCode, stdout, stderr, stalled }: Supervised,
  cache: string,
): string | undefined {
  if (stalled)
    return `nothing was received for ${stallSeconds()} s: check the network and the proxy that apt uses`
  if (exitCode === 0) return undefined
  if (isFullDisk(`${stdout}\n${stderr}`)) throw new SystemTrouble(noSpace(cache))
  return (stderr.trim().split('\n').at(-1) || `exit code ${exitCode}`)
    .replace(/^[EW]: /, '')
    .replace(/\.$/, '')
}
