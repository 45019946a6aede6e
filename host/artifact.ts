import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { oneAtATime } from './one-at-a-time.ts'
import { type Progress, silent } from './progress.ts'

/**
 * A file or folder of the cache that is created once. A manifest of all its files next to it is
 * used to detect damage.
 */
export interface Artifact {
  path: string
  /** Its parts: if one is missing in the manifest, it is recreated. */
  parts?: readonly string[]
  /** Creates it at a temporary path, from which it is moved to its own. */
  make(fresh: string): Promise<void>
}

/**
 * The ctime changes with every write, change of mode and copy, and no program can set it back: a
 * file with unchanged size and ctime is not read again.
 */
type FileProof =
  | { size: number; ctimeMs: number; executable: boolean; sha256: string }
  | { link: string }

interface ArtifactManifest {
  parts: string[]
  /** By path below the artifact's; '' for the artifact itself if it is a file. */
  files: Record<string, FileProof>
}

const manifestOf = (path: string) => `${path}.manifest`

/**
 * Resolves to the path of an intact artifact, which is recreated if it is missing, damaged or made
 * from other parts. If several processes need it, only one creates it.
 * @throws the errors of `make`; then no files are left
 */
export async function ensureArtifact(
  artifact: Artifact,
  progress: Progress = silent,
): Promise<string> {
  const { path } = artifact
  if (isIntact(artifact)) return path
  const make = async () => {
    // Another process may have created it in the meantime.
    if (isIntact(artifact)) return
    const damage = readManifest(path) && existsSync(path) ? damageOf(path) : undefined
    if (damage) progress.note(`"${path}" is damaged (${damage}): creating it again.`)
    await recreate(artifact)
  }
  await oneAtATime(`${path}.lock`, make, { doing: `makes "${path}"`, progress })
  return path
}

/**
 * Verifies every byte of an artifact. The next ensureArtifact recreates a damaged one.
 * @returns the damage, or undefined
 */
export function proveArtifact(path: string): string | undefined {
  const damage = damageOf(path, { readAll: true })
  if (damage) rmSync(manifestOf(path), { recursive: true, force: true })
  return damage
}

function isIntact({ path, parts = [] }: Artifact): boolean {
  const made = readManifest(path)?.parts
  return (
    made !== undefined && parts.every((part) => made.includes(part)) && damageOf(path) === undefined
  )
}

async function recreate({ path, parts = [], make }: Artifact): Promise<void> {
  // The same path for all attempts: the next one removes what a killed one left.
  const fresh = `${path}.new`
  mkdirSync(dirname(path), { recursive: true })
  rmSync(fresh, { recursive: true, force: true })
  try {
    await make(fresh)
    for (const old of [manifestOf(path), path]) rmSync(old, { recursive: true, force: true })
    renameSync(fresh, path)
    writeManifest(path, { parts: [...parts], files: fileProofs(path) })
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true })
    throw error
  }
}

function damageOf(path: string, { readAll = false } = {}): string | undefined {
  const manifest = readManifest(path)
  if (!manifest) return 'its manifest is missing or damaged'
  let copied = false
  for (const [name, proof] of Object.entries(manifest.files)) {
    const file = join(path, name)
    const stats = statsOf(file)
    const damage = differenceOf(file, proof, stats, readAll)
    if (damage) return `"${name || path}" ${damage}`
    if (!('link' in proof) && stats && proof.ctimeMs !== stats.ctimeMs) {
      proof.ctimeMs = stats.ctimeMs
      copied = true
    }
  }
  if (copied) writeManifest(path, manifest)
  return undefined
}

function differenceOf(
  file: string,
  proof: FileProof,
  stats: Stats | undefined,
  readAll: boolean,
): string | undefined {
  if (!stats) return 'is missing'
  if ('link' in proof)
    return stats.isSymbolicLink() && readlinkSync(file) === proof.link
      ? undefined
      : 'is another link'
  if (!stats.isFile()) return 'is not a file'
  if (stats.size !== proof.size) return `has ${stats.size} bytes instead of ${proof.size}`
  if (proof.executable && !isExecutable(stats)) return 'is not executable'
  if (!readAll && stats.ctimeMs === proof.ctimeMs) return undefined
  return checksum(file) === proof.sha256 ? undefined : 'has other contents'
}

function statsOf(file: string): Stats | undefined {
  try {
    return lstatSync(file)
  } catch {
    // It is missing, or one of its parent folders is a file now.
    return undefined
  }
}

const isExecutable = ({ mode }: Stats) => (mode & 0o100) !== 0

/** SHA-256 of a file, in hexadecimal. */
export const checksum = (file: string) =>
  createHash('sha256').update(readFileSync(file)).digest('hex')

function fileProofs(path: string): ArtifactManifest['files'] {
  const names = lstatSync(path).isDirectory()
    ? readdirSync(path, { recursive: true, encoding: 'utf8' })
    : ['']
  return Object.fromEntries(
    names.sort().flatMap((name): [string, FileProof][] => {
      const file = join(path, name)
      const stats = lstatSync(file)
      if (stats.isSymbolicLink()) return [[name, { link: readlinkSync(file) }]]
      if (!stats.isFile()) return []
      const { size, ctimeMs } = stats
      return [[name, { size, ctimeMs, executable: isExecutable(stats), sha256: checksum(file) }]]
    }),
  )
}

function readManifest(path: string): ArtifactManifest | undefined {
  try {
    const read: Partial<ArtifactManifest> = JSON.parse(readFileSync(manifestOf(path), 'utf8'))
    return Array.isArray(read.parts) && read.files instanceof Object
      ? { parts: read.parts, files: read.files }
      : undefined
  } catch {
    return undefined
  }
}

function writeManifest(path: string, manifest: ArtifactManifest): void {
  const fresh = `${manifestOf(path)}.${process.pid}`
  writeFileSync(fresh, JSON.stringify(manifest))
  renameSync(fresh, manifestOf(path))
}
